"""Precedents: what a solved task shows about another one, whatever things are called."""

import re
from dataclasses import replace

from pipeline.synthesis.fingerprints import fingerprints_of
from pipeline.synthesis.precedents import Profile, branch_order, nearest, precedent_of, relevance
from step_runtime.primitives import Accum, Map
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import SolvedTask, Task, dump_task
from tests.support.benchmark_tasks import oracle, task_named


def solved(name: str) -> SolvedTask:
    return SolvedTask(task_named(name).without_impl(), oracle(name).program)


def profile(task: Task) -> Profile:
    scope = static_scope(task)
    return Profile.of(task, scope, [*fingerprints_of(task, scope.fns).values()])


def test_a_production_has_no_names() -> None:
    """A task and its program with other names for functions and streams show the same productions and profile."""
    one = solved("gemm/1")
    names = [fn.func_name for fn in one.task.fns] + [spec.name for spec in one.task.inputs]
    text, program = dump_task(one.task), one.program
    for number, name in enumerate(names):
        other = f"fn_other{number}" if name.startswith("fn_") else f"other{number}"
        text, program = (re.sub(rf"\b{name}\b", other, each) for each in (text, program))
    renamed = precedent_of(SolvedTask(loads_task(text, "renamed"), program))
    known = precedent_of(one)
    assert known and renamed and names[0] not in text
    assert known.productions == renamed.productions and known.profile == renamed.profile


def test_productions_are_the_steps_of_the_program() -> None:
    """Each has its primitive, what made its operands, and whether its function was applied before."""
    known = precedent_of(solved("gemm/0"))
    assert known
    kinds = [production.kind for production in known.productions]
    assert kinds == [Map, Accum] and [production.again for production in known.productions] == [False, False]
    assert [production.fingerprint for production in known.productions] == [*known.fingerprints.values()]
    assert known.productions[1].makers == (known.productions[0].fingerprint,)
    assert [production.form.folded > 0 for production in known.productions] == [kind is Accum for kind in kinds]


def test_a_program_that_is_not_well_typed_shows_nothing() -> None:
    """Neither does a text that is no program."""
    one = solved("gemm/0")
    assert precedent_of(replace(one, program="return nothing")) is None
    assert precedent_of(replace(one, program="E0 = step.Flatten(L=[7]).apply(E9)\nreturn E0")) is None


def test_tasks_of_one_group_are_the_nearest() -> None:
    """The task itself is as relevant as can be; tasks with the same functions come before others."""
    task = task_named("gemm/2")
    assert relevance(profile(task), profile(task)) == 1
    found = nearest([solved(name) for name in ("expert/0", "gemm/0", "index/0", "gemm/1", "rope/0")], profile(task), 2)
    names = [known.task.name for known, _ in found]
    assert sorted(names) == ["gemm/0", "gemm/1"]
    weights = [weight for _, weight in found]
    assert weights == sorted(weights, reverse=True) and 0 < weights[-1] <= weights[0] <= 1


def test_an_order_of_branches_counts_places_alone() -> None:
    """Functions that the task lists between those of the branches change nothing."""
    assert branch_order((4, -1, 2)) == branch_order((3, -1, 0)) == (1, -1, 0)
    assert branch_order((2, -1, 4)) != branch_order((4, -1, 2))
