"""Repairs: an LM reads its wrong program with what the verifier found, and writes it anew.

The verdict's numbers never reach the LM: where a value is wrong it is told which output, where and in how many places.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

import dspy
from dspy.utils.exceptions import AdapterParseError

from signatures import Refine, holds_program, without_ir
from step_runtime.base.errors import TaskError
from step_runtime.tasks.task import Task

if TYPE_CHECKING:
    from pipeline.verification.metric import Reward

_NUMBERS = re.compile(r"(; first at \[[^\]]*\]): .*")


class Verifying(Protocol):
    """What judges a prediction on an example, such as `pipeline.verification.metric.Metric`."""

    def __call__(self, example: Any, prediction: Any) -> Reward:
        """The verdict."""


class Judge:
    """What an agent's modules ask about a program while they work; copies of an agent share it.

    Attributes:
        metric: What verifies; None for this process, without a limit on memory.
        tasks: The tasks that the user has named: the only ones, of those in a prompt, whose code may run.
    """

    def __init__(self, metric: Verifying | None = None, tasks: Iterable[Task] = ()) -> None:
        self.metric = metric
        self.tasks = list(tasks)

    def __call__(self, task: Task, impl: str) -> Reward:
        """The verdict on a program.

        Raises:
            TaskError: the task cannot be used, or its reference failed.
        """
        if self.metric is None:
            from pipeline.verification.metric import Metric

            self.metric = Metric()
        return self.metric(dspy.Example(task=task), dspy.Prediction(impl=impl))

    def __deepcopy__(self, memo: dict[int, Any]) -> Judge:
        return self


class Refiner(dspy.Module):
    """Mends a program that the verifier refused.

    Args:
        instructions: the base prompt, composed.
        judge: finds what is wrong.
        ir: whether the task is shown in the structural IR.
    """

    def __init__(self, instructions: str, judge: Judge, *, ir: bool = True) -> None:
        super().__init__()
        signature = Refine if ir else without_ir(Refine)
        self.predict = dspy.Predict(signature.with_instructions(instructions))
        self.judge = judge

    def refusal(self, task: Task, impl: str) -> dict[str, str] | None:
        """`stage` and `feedback` of a program that fails; None for one that passes.

        Of a task that cannot be judged nothing is said: whoever judges the answer will meet the same fault.
        """
        try:
            verdict = self.judge(task, impl)
        except TaskError:
            return None
        return None if verdict else {"stage": str(verdict.stage), "feedback": told(verdict.stage, verdict.feedback)}

    def forward(self, task: Task, impl: str, feedback: str) -> dspy.Prediction:
        """A prediction with `impl`: the LM's program; the one that it was shown if it answers without a program."""
        try:
            answer = self.predict(task=task, input_impl=impl, diagnostics=feedback).output_impl
        except AdapterParseError as error:
            answer = error.lm_response
        return dspy.Prediction(impl=answer if holds_program(answer) else impl)


def told(stage: str | None, feedback: str) -> str:
    """A verdict's feedback without numbers of the reference."""
    return _NUMBERS.sub(r"\1", feedback) if stage == "value" else feedback
