"""Triton's language keeps what the layer for tensors and its own access to memory promise, where it is installed."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pipeline.languages import Verdict
from tests.support.paths import PROJECT

if find_spec("triton") is None:  # not imported here: the language sets its environment first
    pytest.skip("triton is not installed", allow_module_level=True)
sys.path.insert(0, str(PROJECT / "examples/triton"))

from triton_language import TRITON

TASKS = {path.stem: TRITON.task(path.read_text(), path.stem, path.name) for path in TRITON.folder.glob("tasks/*.yaml")}
UNENDING = {"endless", "grid", "memory", "power-tower"}
"""Attacks that a worker's limits end."""


def programs(kind: str) -> list[Any]:
    paths = sorted((TRITON.folder / kind).rglob("*.triton"))
    return [pytest.param(path, id=f"{path.parent.name}-{path.stem}") for path in paths]


def judged(path: Path) -> Verdict:
    return TRITON.judge(TASKS[path.stem], path.read_text(), None)


@pytest.mark.parametrize("path", [*programs("oracles"), *programs("also"), *programs("same")])
def test_right_programs_pass_and_are_held_out(path: Path) -> None:
    assert judged(path).diagnostics == ()
    found = TRITON.hold_out(TASKS[path.stem], path.read_text(), 1)
    assert found.passed, found.reason


@pytest.mark.parametrize("path", programs("near-misses"))
def test_near_misses_fail_where_they_state(path: Path) -> None:
    assert judged(path).stage == path.parent.name


@pytest.mark.parametrize("path", programs("attacks"))
def test_attacks_do_not_pass(path: Path, tmp_path: Path) -> None:
    """Those that never end are refused by limits, which the conformance kit tries."""
    if path.parent.name not in UNENDING:
        text = path.read_text().replace("CANARY", str(tmp_path / "canary"))
        assert not TRITON.judge(TASKS["add"], text, None).passed
    assert not (tmp_path / "canary").exists()


def test_an_access_outside_of_its_tensor_names_the_element_and_the_line() -> None:
    text = (TRITON.folder / "attacks/pointer-before/add.triton").read_text()
    (found,) = TRITON.judge(TASKS["add"], text, None).diagnostics
    assert found.message == "an access at element -1024 of a tensor of 100; is its mask missing or wrong?"
    assert found.span is not None and "tl.load(out" in text.splitlines()[found.span.line - 1]
