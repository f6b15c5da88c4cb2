"""The proposer's tools show types and run solved examples, never the task itself."""

from __future__ import annotations

from typing import Any

from pipeline.agent.tools import ToolContext, check, list_examples, show_example, tool_context, verify_on_example
from pipeline.agent.verifier import ProgramVerifier
from pipeline.verification.metric import Reward
from step_runtime.tasks.task import SolvedTask, Task
from tests.support.scripted_answers import ILL_TYPED, RIGHT, WRONG, task


class Refusing:
    """A metric that must not be asked about one task."""

    def __init__(self, forbidden: Task) -> None:
        self.forbidden = forbidden
        self.asked: list[str] = []

    def __call__(self, example: Any, prediction: Any) -> Any:
        assert example.task.without_impl() != self.forbidden
        self.asked.append(example.task.name)
        return Reward(score=0.0, stage="value", feedback="output S0 differs; first at [0]: 1, expected 2")


def test_the_tools_tell_types_and_run_examples_alone() -> None:
    """What a program computes is reported for examples; for the task only what its text shows."""
    metric = Refusing(task())
    example = task("other/0").model_copy(update={"sizes": {"M": [3, 4]}})
    solved = SolvedTask(example, RIGHT)
    with tool_context(ToolContext(task(), {"other/0": solved}, ProgramVerifier(metric), frozenset({"other/0"}))):
        assert "E1  fp32 [M, N]" in check(RIGHT)
        assert "No rule is broken" in check(WRONG)
        assert "fn_mul takes [fp32, fp32]" in check(ILL_TYPED)
        assert list_examples() == "other/0"
        assert RIGHT in show_example("other/0")
        assert "there are: other/0" in show_example("square/0")
        assert verify_on_example("other/0", WRONG) == "output S0 differs; first at [0]"
        assert "no example 'square/0'" in verify_on_example("square/0", RIGHT)
    assert metric.asked == ["other/0"]
