"""A plan is what a program applies to what."""

import pytest

from pipeline.synthesis.precedents import NotAPlan, plan_of
from step_runtime.language.parser import parse
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task
from tests.support.paths import PROJECT


def read(name: str, folder: str = "tasks") -> Task:
    return loads_task((PROJECT / f"data/{folder}/{name}.yaml").read_text(), name)


def oracle(name: str) -> str:
    return (PROJECT / f"data/oracles/{name}.step").read_text()


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
