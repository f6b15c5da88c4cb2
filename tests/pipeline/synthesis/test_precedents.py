"""Precedents: what a solved task shows about another one, whatever things are called."""

import re
from dataclasses import replace

import pytest

from pipeline.synthesis.precedents import (
    Fingerprint,
    NotAPlan,
    Profile,
    branch_order,
    commutes,
    features_of,
    fingerprints_of,
    nearest,
    plan_of,
    precedent_of,
    relevance,
    similarity,
)
from step_runtime.language.parser import parse
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


def test_a_branch_of_two_functions_is_not_a_plan() -> None:
    scope = static_scope(task_named("etoe/1"))
    fn = next(iter(scope.fns))
    text = (
        f"A = step.Partition(N=3).apply((E0, E0))\nB = step.Map(fn={fn}).apply(step.Map(fn={fn}).apply(A[0]))\nreturn B"
    )
    program, wrong = parse(text, scope)
    assert not wrong
    with pytest.raises(NotAPlan):
        plan_of(program, scope)


def fingerprint(name: str, fn: str) -> Fingerprint:
    task = task_named(name)
    return fingerprints_of(task, static_scope(task).fns)[fn]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x, gates = input\nreturn [gates * x]", "value, share = input\nreturn [share * value]"),
        ("return [input[0] @ input_data['W_00']]", "return [input[0] @ input_data['Weights']]"),
        ("return [input[0] / D_value]", "return [input[0] / K_value]"),
        ("return [state[0] + input[0]]", "return [input[0] + state[0]]"),
        ("return [torch.exp(input[0])]", "x = input[0]\nreturn [x.exp()]"),
    ],
)
def test_names_and_layout_of_code_do_not_matter(one: str, other: str) -> None:
    """Locals, weights, sizes, the order of a sum and the way a function is called leave the features as they are."""
    assert features_of(one) == features_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("return [input[0] * input[0]]", "return [input[0] * input[1]]"),
        ("return [input[0] - input[1]]", "return [input[1] - input[0]]"),
        ("return [input[0].topk(1).indices]", "return [input[0].topk(2).indices]"),
        ("return [input[1]]", "return [input[0]]"),
    ],
)
def test_what_is_computed_does(one: str, other: str) -> None:
    """Other operands, and other numbers, are other features."""
    assert features_of(one) != features_of(other)


def test_types_without_dims_count() -> None:
    """The same code on a buffer is less like than on a scalar, and where it starts from counts as well."""
    scalar, buffer, ones = (
        fingerprint("norm/1", "fn_add"),
        fingerprint("bmm/1", "fn_sum"),
        fingerprint("rope/0", "fn_sum"),
    )
    assert scalar.features == buffer.features != ones.features
    assert similarity(scalar, buffer) < similarity(scalar, scalar) == 1.0 and similarity(scalar, ones) < 1.0
    assert similarity(scalar, fingerprint("norm/1", "fn_addeps")) == 0.0, "what folds can't stand in for what maps"


def test_what_is_not_python_is_like_itself_only() -> None:
    """Code that cannot be parsed is compared as text."""
    assert features_of("return [") == {"return ["}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("return [input[0] * input[1]]", True),
        ("x, y = input\nreturn [torch.maximum(y, x)]", True),
        ("return [input[0] - input[1]]", False),
        ("return [input[0] * input[0] - input[1] * input[1]]", False),
        ("return [state[0] + input[0]]", False),
    ],
)
def test_a_function_commutes_that_only_adds_multiplies_or_compares_its_inputs(code: str, expected: bool) -> None:
    """In any order; whatever else it computes leaves that open."""
    assert commutes(code) == expected
