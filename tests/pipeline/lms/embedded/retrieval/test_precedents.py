"""Precedents: solved tasks support what was done in them with similar functions, and nothing else."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.prompt.parsing import SolvedExample
from pipeline.lms.embedded.retrieval.precedents import Precedents
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.base.functions import Fn
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task
from step_runtime.verification.loading import load_task
from tests.support.paths import PROJECT

ROOT = PROJECT


def task_named(name: str) -> Task:
    return load_task(ROOT / f"data/tasks/{name}.yaml").named(name)


def oracle(name: str) -> SolvedExample:
    return SolvedExample(task_named(name), (ROOT / f"data/oracles/{name}.step").read_text())


def precedents(name: str, *shown: str) -> tuple[Precedents, dict[str, Fn]]:
    task = task_named(name)
    scope = static_scope(task)
    return Precedents(task, scope, [oracle(one) for one in shown]), dict(scope.fns)


def test_an_unlike_task_supports_nothing() -> None:
    """What was done with other functions does not bear on these."""
    known, fns = precedents("rope/0", "etoe/0", "index/1")
    assert not any(known.cover(fn) for fn in fns.values())


def test_a_like_task_supports_its_own_steps_in_its_own_order() -> None:
    """From what was shown, the sum of ones is scanned, and what it made is rotated with the vectors, not the ones."""
    known, fns = precedents("rope/0", "rope/1")
    ones, vectors = known.inputs
    summed = known.support(fns["fn_sum"], (ones,), again=False)
    assert max(summed, key=lambda how: summed[how]) == "Scan"
    positions = known.made(fns["fn_sum"], "Scan", (ones,))
    right, wrong = (
        max(known.support(fns["fn_neoxrope"], sources, again=False).values(), default=0.0)
        for sources in ((positions, vectors), (ones, vectors))
    )
    assert right > wrong


def test_more_of_what_is_unlike_changes_nothing() -> None:
    """The best precedent counts, not how many there are."""
    supports = []
    for shown in (("rope/1",), ("rope/1", "etoe/0", "norm/1", "expert/1", "index/2")):
        known, fns = precedents("rope/0", *shown)
        supports.append(known.support(fns["fn_sum"], known.inputs[:1], again=False))
    assert supports[0] == supports[1]


def test_applying_again_needs_a_precedent_that_did() -> None:
    """What every precedent applies once is hardly supported a second time."""
    known, fns = precedents("rope/0", "rope/1")
    first, again = (known.support(fns["fn_sum"], known.inputs[:1], again=so).get("Scan", 0.0) for so in (False, True))
    assert first > 3 * again


@pytest.mark.parametrize("name", ["etoe/0", "etoe/1"])
def test_branches_stand_as_those_of_the_precedent(name: str) -> None:
    """The order in which branches do what those of a solved task do has the most support."""
    view = TaskView(task_named(name))
    known = Precedents(view.task, view.scope, [oracle("etoe/1" if name == "etoe/0" else "etoe/0")])
    (routing,) = view.routings
    best = max(routing.orders(), key=lambda way: known.order(routing, way))
    assert [fn.label for fn in best if fn is not None] == ["fn_expert0", "fn_expert1", "fn_expert2"]


def test_what_ends_a_like_program_is_an_output() -> None:
    """A stream made as the result of a precedent was is likelier an output than an input is."""
    known, fns = precedents("rope/0", "rope/1")
    ones, vectors = known.inputs
    made = known.made(fns["fn_neoxrope"], "Map", (known.made(fns["fn_sum"], "Scan", (ones,)), vectors))
    assert known.ending(made) > known.ending(vectors)


def test_a_solution_that_is_not_well_typed_is_not_a_precedent() -> None:
    """What does not check teaches nothing."""
    task = task_named("rope/0")
    known = Precedents(task, static_scope(task), [SolvedExample(task_named("rope/1"), "return E0")])
    assert known.relevance != {} or not known.cover(next(iter(static_scope(task).fns.values())))
    broken = Precedents(task, static_scope(task), [SolvedExample(task_named("rope/1"), "return step.Nope().apply(E0)")])
    assert broken.relevance == {}


def test_relevance_is_that_of_the_same_group() -> None:
    """Tasks of one group bear more on each other than on any other."""
    known, _ = precedents("rope/2", "rope/0", "norm/1", "etoe/0", "gemm/0")
    ranked = sorted(known.relevance, key=lambda solved: -known.relevance[solved])
    assert ranked[0].task.name == "rope/0"
    assert known.relevance[ranked[0]] > 2 * known.relevance[ranked[1]]
