"""Programs priced in a process of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.actions.price_program import Optimized, chip_of, optimize, price_programs
from pipeline.base.errors import UsageError
from step_runtime.cost.chip import DEFAULT_CHIP
from tests.step_runtime.rewriting.test_optimizing import NEEDLESS
from tests.support.oracles import task
from tests.support.scripted_runs import RIGHT, tasks

TASK = tasks()[0]


def test_every_program_is_priced_or_has_findings() -> None:
    right, wrong = price_programs(TASK, [("right", RIGHT), ("wrong", "return E9")], DEFAULT_CHIP, {"M": 32})
    assert not isinstance(right.priced, tuple) and right.priced.cost.operations == 32
    assert isinstance(wrong.priced, tuple) and wrong.priced[0].stage == "parse"


def test_sizes_that_the_task_does_not_have_are_refused() -> None:
    with pytest.raises(UsageError, match="no dim Q"):
        price_programs(TASK, [("right", RIGHT)], DEFAULT_CHIP, {"Q": 32})


def test_the_chip_is_the_default_one_a_file_or_one_with_other_memory(tmp_path: Path) -> None:
    path = tmp_path / "chip.yaml"
    path.write_text("rate: 2\nsram: 10")
    assert chip_of(None, None) is DEFAULT_CHIP
    assert (chip_of(str(path), None).sram, chip_of(str(path), 20).sram, chip_of(str(path), 20).rate) == (10, 20, 2)
    path.write_text("rate: x")
    with pytest.raises(UsageError, match="rate"):
        chip_of(str(path), None)


def test_a_program_becomes_cheaper() -> None:
    found = optimize(task("norm/2"), NEEDLESS, "memory", DEFAULT_CHIP, 40)
    assert isinstance(found, Optimized)
    assert found.best.cost.memory < found.given.cost.memory
    assert "drop a round trip" in found.best.rewrites and found.refused == 0


def test_a_wrong_program_gets_its_verdict() -> None:
    found = optimize(task("norm/2"), "return E0", "memory", DEFAULT_CHIP, 40)
    assert not isinstance(found, Optimized) and found.stage == "value"
