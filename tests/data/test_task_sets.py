"""Sets of tasks beside the benchmark: each task has an oracle that passes and, but for one set, a failing near miss."""

from functools import cache

import pytest

from step_runtime import Task, Verifier, dump_task, load_task, loads_task
from step_runtime.language.parser import parse
from step_runtime.verification.check import infer_types
from step_runtime.verification.instance import instances
from tests.support import oracles
from tests.support.agreement import compare
from tests.support.mutants import changed, judged
from tests.support.paths import PROJECT
from tests.support.truth import computes

# Three references of the modern tasks guard with a clamp against numbers that their inputs never have.
pytestmark = pytest.mark.filterwarnings("ignore:.*the reference is the same without its clamp")

DATA = PROJECT / "data"
FAILING = {"extra": (), "modern": ("shape", "run", "value"), "formats": ("value",), "field": ("value",)}
"""The stages at which a near miss may fail, by set; a set of none has no near misses."""

TASKS = [(kind, path.stem) for kind in FAILING for path in sorted((DATA / f"tasks-{kind}").glob("*"))]


@cache
def loaded(kind: str, name: str) -> Task:
    return load_task(DATA / f"tasks-{kind}/{name}.yaml")


@pytest.mark.parametrize(("kind", "least"), [("extra", 12), ("modern", 20), ("formats", 9), ("field", 36)])
def test_every_task_has_its_programs_and_none_lies_about(kind: str, least: int) -> None:
    """A task is data/tasks-SET/NAME.yaml; its programs are NAME.step in the folders beside it."""
    names = [name for own, name in TASKS if own == kind]
    assert len(names) >= least
    assert sorted(path.name for path in (DATA / f"tasks-{kind}").iterdir()) == [f"{name}.yaml" for name in names]
    for folder in ("oracles", "near-misses") if FAILING[kind] else ("oracles",):
        found = sorted(path.name for path in (DATA / f"{folder}-{kind}").iterdir())
        assert found == [f"{name}.step" for name in names]


@pytest.mark.parametrize(("kind", "name"), TASKS)
def test_the_oracle_passes_and_the_near_miss_fails(kind: str, name: str) -> None:
    """The near miss is well-typed and affine: only its numbers, or its outputs, are wrong.

    The task holds no solution itself, and no task of the benchmark has its reference.
    """
    task = loaded(kind, name)
    verifier = Verifier(task)
    right = (DATA / f"oracles-{kind}/{name}.step").read_text()
    verdict = verifier.verify(right)
    assert verdict.passed, verdict.render(right, name)
    if FAILING[kind]:
        assert verifier.verify((DATA / f"near-misses-{kind}/{name}.step").read_text()).stage in FAILING[kind]
    assert task.impl is None and task.names_formats == (kind == "formats")
    assert task.outputs not in [oracles.task(other).outputs for other in oracles.names()]
    assert loads_task(dump_task(task)) == task


@pytest.mark.parametrize("name", [name for kind, name in TASKS if kind == "modern"])
def test_the_verifier_agrees_with_what_tokens_say(name: str) -> None:
    """Of the oracle, and of one in a hundred of its single-edit mutants: the right ones pass, and no others."""
    task = loaded("modern", name)
    text = (DATA / f"oracles-modern/{name}.step").read_text()
    for instance in instances(task):
        program, _ = parse(text, instance.scope)
        types, found = infer_types(program, instance.scope)
        data = instance.sample_inputs(3)
        assert not found
        assert computes(program, types, instance, data, instance.reference())
        assert compare(program, types, data, instance.sizes) is None
    assert [row for row in judged(task, changed(task, text, 1 / 100), seeds=(11,)) if not row.agrees] == []


@pytest.mark.parametrize("name", [name for kind, name in TASKS if kind == "formats"])
def test_an_oracle_in_its_formats_holds_on_stress_inputs(name: str) -> None:
    """Rounding that the task's least precise format explains does not count."""
    verifier = Verifier(loaded("formats", name))
    assert verifier.stress((DATA / f"oracles-formats/{name}.step").read_text()) == []
