"""Tasks that name number formats: each with an oracle that passes and a near miss that fails."""

from __future__ import annotations

import pytest

from step_runtime import Verifier, dump_task, load_task, loads_task
from tests.support.paths import PROJECT

DATA = PROJECT / "data"
NAMES = sorted(path.stem for path in (DATA / "tasks-formats").glob("*"))


def test_every_task_has_an_oracle_and_a_near_miss() -> None:
    """A task is data/tasks-formats/NAME.yaml; its programs are NAME.step in the folders beside it."""
    assert sorted(path.name for path in (DATA / "tasks-formats").iterdir()) == [f"{name}.yaml" for name in NAMES]
    for folder in ("oracles-formats", "near-misses-formats"):
        assert sorted(path.name for path in (DATA / folder).iterdir()) == [f"{name}.step" for name in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_the_oracle_passes_and_the_near_miss_fails(name: str) -> None:
    """The near miss is well-typed and affine: only its numbers are wrong."""
    task = load_task(DATA / f"tasks-formats/{name}.yaml")
    verifier = Verifier(task)
    right = (DATA / f"oracles-formats/{name}.step").read_text()
    wrong = (DATA / f"near-misses-formats/{name}.step").read_text()
    verdict = verifier.verify(right)
    assert verdict.passed, verdict.render(right, name)
    assert verifier.verify(wrong).stage == "value"
    assert verifier.stress(right) == []
    assert task.impl is None and task.names_formats
    assert loads_task(dump_task(task)) == task
