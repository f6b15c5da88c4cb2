"""Tasks beside the benchmark: common operators that no prompt, test or figure of the benchmark knows."""

from __future__ import annotations

import pytest

from step_runtime import Verifier, dump_task, load_task, loads_task
from tests.support import oracles
from tests.support.paths import PROJECT

DATA = PROJECT / "data"
NAMES = sorted(path.stem for path in (DATA / "tasks-extra").glob("*"))


def test_every_task_has_one_oracle_and_none_lies_about() -> None:
    """A task is data/tasks-extra/NAME.yaml, its oracle data/oracles-extra/NAME.step."""
    assert sorted(path.name for path in (DATA / "tasks-extra").iterdir()) == [f"{name}.yaml" for name in NAMES]
    assert sorted(path.name for path in (DATA / "oracles-extra").iterdir()) == [f"{name}.step" for name in NAMES]


def test_there_are_at_least_a_dozen() -> None:
    """A figure over fewer tasks would say little."""
    assert len(NAMES) >= 12


@pytest.mark.parametrize("name", NAMES)
def test_oracle_passes_both_verifiers(name: str) -> None:
    """The reference program is right at every set of sizes and seed.

    The task holds no solution itself, and has another reference than any task of the benchmark.
    """
    task = load_task(DATA / f"tasks-extra/{name}.yaml")
    text = (DATA / f"oracles-extra/{name}.step").read_text()
    verdict = Verifier(task).verify(text)
    assert verdict.passed, verdict.render(text, name)
    assert task.impl is None
    assert loads_task(dump_task(task)) == task
    assert task.outputs not in [oracles.task(other).outputs for other in oracles.names()]
