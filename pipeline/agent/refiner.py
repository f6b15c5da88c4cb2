"""Repairs: an LM reads its wrong program with the verifier's diagnostics, and rewrites it.

The reference's values never reach the LM: of a wrong value it learns which output, where, and how many places differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from pipeline.agent.speaking import holds_program_in, signature_in
from pipeline.verification.metric import Metric, Reward
from signatures import Refine
from step_runtime.base.errors import TaskError

MetricFn = Callable[[Any, Any], Reward]
"""Judges a prediction on an example, such as `pipeline.verification.metric.Metric`."""


class ProgramVerifier:
    """Verifies programs while the agent runs; copies of an agent share it.

    Attributes:
        metric: What verifies; None for verification in this process, without a memory limit.
        tasks: The tasks that the user named: of the tasks in a prompt, only their code may run.
    """

    def __init__(self, metric: MetricFn | None = None) -> None:
        self.metric = metric
        self.tasks: list[Any] = []

    def __call__(self, task: Any, impl: str) -> Reward:
        """The verdict on a program.

        Raises:
            TaskError: The task can't be used, or its reference fails.
        """
        if self.metric is None:
            self.metric = Metric()
        return self.metric(dspy.Example(task=task), dspy.Prediction(impl=impl))

    def __deepcopy__(self, memo: dict[int, Any]) -> ProgramVerifier:
        return self


_VALUES = re.compile(r"(; first at \[[^\]]*\]): .*")


class Refiner(dspy.Module):
    """Repairs a program that fails verification."""

    def __init__(
        self, instructions: str, verifier: ProgramVerifier, *, ir: bool = True, language: str | None = None
    ) -> None:
        super().__init__()
        self.language = language
        signature = signature_in(language, Refine, ir)
        self.predict = dspy.Predict(signature.with_instructions(instructions))
        self.verifier = verifier

    def failure(self, task: Any, impl: str) -> dict[str, str] | None:
        """`stage` and `feedback` of a program that fails; None for one that passes.

        None, too, if the task itself is faulty: verifying the final answer raises the same error.
        """
        try:
            verdict = self.verifier(task, impl)
        except TaskError:
            return None
        if verdict:
            return None
        return {"stage": str(verdict.stage), "feedback": without_reference_values(verdict.stage, verdict.feedback)}

    def forward(self, task: Any, impl: str, feedback: str) -> dspy.Prediction:
        """A prediction with `impl`: the LM's program, or the given one if the answer has none."""
        try:
            answer = self.predict(task=task, input_impl=impl, diagnostics=feedback).output_impl
        except AdapterParseError as error:
            answer = error.lm_response
        return dspy.Prediction(impl=answer if holds_program_in(self.language, answer) else impl)


def without_reference_values(stage: str | None, feedback: str) -> str:
    """A verdict's feedback without values of the reference."""
    return _VALUES.sub(r"\1", feedback) if stage == "value" else feedback
