"""The benchmark that follows oracles through the proposer."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

from step_runtime.base.shapes import as_dim
from step_runtime.base.types import StreamType, parse_dtype
from tests.support.paths import PROJECT

DATA = PROJECT / "data"

pytestmark = pytest.mark.filterwarnings("ignore:.*the reference is the same without its clamp")


def main(arguments: list[str]) -> int:
    return int(importlib.import_module("benchmarks.lost_drafts").main(arguments))


def test_every_function_of_an_oracle_is_followed(capsys: pytest.CaptureFixture[str]) -> None:
    """The proposer can make all its moves, and what becomes of each sample is counted."""
    task = DATA / "tasks-modern" / "horner.yaml"
    assert main([str(task), "--oracles", str(DATA / "oracles-modern"), "--samples", "1", "--moves"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("horner: ") and "inexpressible" not in shown and "similarity of the whole" in shown


def test_a_task_without_an_oracle_is_an_error() -> None:
    """Its file is named."""
    with pytest.raises(ValueError, match=r"horner\.yaml: the task has no impl"):
        main([str(DATA / "tasks-modern" / "horner.yaml")])


def test_a_program_that_is_wrong_cannot_be_followed(tmp_path: Path) -> None:
    """Its first finding is in the error."""
    (tmp_path / "horner.step").write_text("return nothing")
    with pytest.raises(ValueError, match="cannot be parsed"):
        main([str(DATA / "tasks-modern" / "horner.yaml"), "--oracles", str(tmp_path)])


def test_an_index_is_not_the_numbers_that_it_consists_of() -> None:
    """A function that only takes its elements out is a step of its own."""
    values = importlib.import_module("benchmarks.oracle_values")
    index, number = (parse_dtype(text, {}) for text in ("Multihot(fp32, 2)", "Buffer(fp32, [2])"))
    data = (torch.eye(2),)
    one, other = (values.content(values.Stream(StreamType(type_, (as_dim(2),)), data)) for type_ in (index, number))
    assert values.same(one, one) and not values.same(one, other)
