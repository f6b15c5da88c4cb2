"""Repairs start from failed programs, and only a program that the verifier passes is one."""

import pytest

from pipeline.synthesis.repair_search import repair_failures
from step_runtime import verify
from step_runtime.tasks.reader import loads_task
from tests.support.paths import PROJECT
from tests.support.small_tasks import of_scalars

MODERN = PROJECT / "data"


@pytest.mark.parametrize("name", ["crf_nll", "dtw", "horner", "rwkv_wkv"])
def test_near_misses_are_repaired(name: str) -> None:
    """Operands in the wrong order, and folds over too few or too many dims."""
    task = loads_task((MODERN / f"tasks-modern/{name}.yaml").read_text(), name)
    wrong = (MODERN / f"near-misses-modern/{name}.step").read_text()
    assert not verify(task, wrong).passed
    found = repair_failures(task, [wrong], 600)
    assert found.impl is not None and verify(task, found.impl).passed
    assert found.edits and found.repaired in (wrong, "")


def test_what_is_out_of_reach_ends_with_its_reason() -> None:
    """A limit of time, or nothing left to try."""
    task = of_scalars({"double": ("2 * input[0]", 1)}, "input_data['E0'] ** 3")
    found = repair_failures(task, ["return E0"], 600)
    assert (found.impl, found.reason) == (None, "exhausted")
    assert repair_failures(task, ["return E0"], 0).reason == "time"
