"""Tasks of today's models: each with an oracle that passes and a near miss that fails."""

from __future__ import annotations

import pytest

from step_runtime import Verifier, dump_task, load_task, loads_task
from tests.support.paths import PROJECT

# Three references guard with a clamp against numbers that their inputs never have.
pytestmark = pytest.mark.filterwarnings("ignore:.*the reference is the same without its clamp")

DATA = PROJECT / "data"
NAMES = sorted(path.stem for path in (DATA / "tasks-modern").glob("*"))


def test_every_task_has_an_oracle_and_a_near_miss() -> None:
    """A task is data/tasks-modern/NAME.yaml; its programs are NAME.step in the folders beside it."""
    assert len(NAMES) == 20
    assert sorted(path.name for path in (DATA / "tasks-modern").iterdir()) == [f"{name}.yaml" for name in NAMES]
    for folder in ("oracles-modern", "near-misses-modern"):
        assert sorted(path.name for path in (DATA / folder).iterdir()) == [f"{name}.step" for name in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_the_oracle_passes_and_the_near_miss_fails(name: str) -> None:
    """The near miss is well-typed and affine: only its numbers, or its outputs, are wrong."""
    task = load_task(DATA / f"tasks-modern/{name}.yaml")
    verifier = Verifier(task)
    right = (DATA / f"oracles-modern/{name}.step").read_text()
    wrong = (DATA / f"near-misses-modern/{name}.step").read_text()
    verdict = verifier.verify(right)
    assert verdict.passed, verdict.render(right, name)
    assert verifier.verify(wrong).stage in ("shape", "run", "value")
    assert task.impl is None
    assert loads_task(dump_task(task)) == task
