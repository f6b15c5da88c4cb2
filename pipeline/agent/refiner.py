"""Repairs: an LM reads its wrong program with the verifier's diagnostics, and rewrites it.

The reference's values never reach the LM: of a wrong value it learns which output, where, and how many places differ.
"""

from __future__ import annotations

import re

import dspy
from dspy.utils.exceptions import AdapterParseError

from pipeline.agent.verifier import ProgramVerifier
from signatures import Refine, holds_program, without_ir
from step_runtime.base.errors import TaskError
from step_runtime.tasks.task import Task

_VALUES = re.compile(r"(; first at \[[^\]]*\]): .*")


class Refiner(dspy.Module):
    """Repairs a program that fails verification."""

    def __init__(self, instructions: str, verifier: ProgramVerifier, *, ir: bool = True) -> None:
        super().__init__()
        signature = Refine if ir else without_ir(Refine)
        self.predict = dspy.Predict(signature.with_instructions(instructions))
        self.verifier = verifier

    def failure(self, task: Task, impl: str) -> dict[str, str] | None:
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

    def forward(self, task: Task, impl: str, feedback: str) -> dspy.Prediction:
        """A prediction with `impl`: the LM's program, or the given one if the answer has none."""
        try:
            answer = self.predict(task=task, input_impl=impl, diagnostics=feedback).output_impl
        except AdapterParseError as error:
            answer = error.lm_response
        return dspy.Prediction(impl=answer if holds_program(answer) else impl)


def without_reference_values(stage: str | None, feedback: str) -> str:
    """A verdict's feedback without values of the reference."""
    return _VALUES.sub(r"\1", feedback) if stage == "value" else feedback
