"""Layers, models and serving steps: each task with an oracle that passes and two near misses that fail as they say."""

import warnings

import pytest

from step_runtime import Verifier, load_task
from step_runtime.language.parser import parse
from step_runtime.primitives import Copy
from step_runtime.verification.instance import instances
from tests.support.paths import PROJECT

DATA = PROJECT / "data"
LEVELS = ("blocks", "models", "serving")
NAMES = [f"{level}/{path.stem}" for level in LEVELS for path in sorted((DATA / "tasks-layers" / level).glob("*.yaml"))]


def test_every_task_has_an_oracle_and_two_near_misses() -> None:
    """A task is data/tasks-layers/LEVEL/NAME.yaml; beside the levels is the file of functions that they include."""
    assert sorted(path.name for path in (DATA / "tasks-layers").iterdir()) == sorted([*LEVELS, "chip.fns.yaml"])
    for folder, endings in (("oracles-layers", [""]), ("near-misses-layers", [".1", ".2"])):
        found = sorted(str(path.relative_to(DATA / folder)) for path in (DATA / folder).rglob("*.step"))
        assert found == sorted(f"{name}{ending}.step" for name in NAMES for ending in endings)


@pytest.mark.parametrize("name", NAMES)
def test_the_oracle_passes_and_the_near_misses_fail(name: str) -> None:
    """The first line of a near miss is the stage at which it fails, and why; nothing about the task is doubtful."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        task = load_task(DATA / f"tasks-layers/{name}.yaml")
    verifier = Verifier(task)
    right = (DATA / f"oracles-layers/{name}.step").read_text()
    verdict = verifier.verify(right)
    assert verdict.passed, verdict.render(right, name)
    assert verifier.stress(right) == []
    program, _ = parse(right, instances(task)[0].scope)
    assert 15 <= sum(not isinstance(node.op, Copy) for node in program.nodes) <= 60
    for number in (1, 2):
        wrong = (DATA / f"near-misses-layers/{name}.{number}.step").read_text()
        stated = wrong.removeprefix("# ").partition(":")[0]
        assert verifier.verify(wrong).stage == stated
