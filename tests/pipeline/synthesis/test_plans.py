"""A plan is what a program applies to what: lowering it gives a program of the same meaning."""

from dataclasses import replace

import pytest

from pipeline.synthesis.plans import NotAPlan, PlanLowering, plan_of
from step_runtime import verify
from step_runtime.base.errors import RuleError
from step_runtime.language.parser import parse
from step_runtime.program.printer import print_program
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task
from tests.support.paths import PROJECT


def read(name: str, folder: str = "tasks") -> Task:
    return loads_task((PROJECT / f"data/{folder}/{name}.yaml").read_text(), name)


def oracle(name: str) -> str:
    return (PROJECT / f"data/oracles/{name}.step").read_text()


@pytest.mark.parametrize("name", ["attn/2", "bmm/2", "gemm/0", "etoe/1", "expert/2", "norm/1", "rope/2"])
def test_the_plan_of_a_right_program_lowers_to_a_right_program(name: str) -> None:
    """Whatever structure the program has, routings among it."""
    task = read(name)
    scope = static_scope(task)
    plan = plan_of(parse(oracle(name), scope)[0], scope)
    program, resolved = PlanLowering(scope).program(plan)
    assert verify(task, print_program(program)).passed
    assert all(step.shape for step in resolved.steps)


def test_missing_structure_is_inserted_as_types_ask_for_it() -> None:
    """A draft without its Repeat has the same plan."""
    task = read("gemm/0")
    scope = static_scope(task)
    draft = "E2 = step.Map(fn=fn_mul).apply((E0, E1))\nreturn step.Accum(fn=fn_add, b=1).apply(E2)"
    assert verify(task, draft).stage == "type"
    plan = plan_of(parse(draft, scope)[0], scope)
    program, _ = PlanLowering(scope).program(plan)
    assert "step.Repeat(n=M)" in print_program(program)
    assert verify(task, print_program(program)).passed


def test_operands_that_do_not_fit_are_a_rule_error() -> None:
    task = read("gemm/0")
    scope = static_scope(task)
    plan = plan_of(parse(oracle("gemm/0"), scope)[0], scope)
    broken = replace(plan, steps=(replace(plan.steps[0], sources=(0,)), *plan.steps[1:]))
    with pytest.raises(RuleError, match="fewer operands"):
        PlanLowering(scope).program(broken)


def test_a_branch_of_two_functions_is_not_a_plan() -> None:
    scope = static_scope(read("etoe/1"))
    fn = next(iter(scope.fns))
    text = (
        f"A = step.Partition(N=3).apply((E0, E0))\nB = step.Map(fn={fn}).apply(step.Map(fn={fn}).apply(A[0]))\nreturn B"
    )
    program, wrong = parse(text, scope)
    assert not wrong
    with pytest.raises(NotAPlan):
        plan_of(program, scope)
