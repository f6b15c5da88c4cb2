"""The guardian: enforces that a program consumes each stream at most once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from pipeline.base.choices import GUARDIANS, GuardianMode
from signatures import Guard, holds_program, without_ir
from step_runtime.language.parser import parse
from step_runtime.program.graph import Program
from step_runtime.program.printer import print_program
from step_runtime.tasks.scope import Scope, static_scope
from step_runtime.tasks.task import Task
from step_runtime.verification.check import check_affine, insert_copies


class Guardian(dspy.Module):
    """Rewrites a program so that each stream is consumed at most once (paper, Section 4.1).

    Args:
        mode: `paper`, an LM sees every program; `gated`, only one in which the exact check finds a violation;
            `compiler`, such a program is repaired by the pass that inserts Copy, without an LM; `none`, no program is
            changed.

    Raises:
        ValueError: The mode is unknown.
    """

    def __init__(self, mode: GuardianMode, instructions: str, *, ir: bool = True) -> None:
        super().__init__()
        if mode not in GUARDIANS:
            raise ValueError(f"mode: expected one of {', '.join(GUARDIANS)}, found {mode!r}")
        self.mode = mode
        if mode in ("gated", "paper"):
            signature = Guard if ir else without_ir(Guard)
            self.predict = dspy.Predict(signature.with_instructions(instructions))

    def forward(self, task: Task, impl: str) -> dspy.Prediction:
        """A prediction with `impl`: the corrected program, or the same one."""
        if self.mode == "none":
            return dspy.Prediction(impl=impl)
        if self.mode == "paper":
            return dspy.Prediction(impl=self._ask(task, impl))
        program = _affine_violation(task, impl)
        if program is None:
            return dspy.Prediction(impl=impl)
        corrected = self._ask(task, impl) if self.mode == "gated" else print_program(insert_copies(program))
        return dspy.Prediction(impl=corrected)

    def _ask(self, task: Task, impl: str) -> str:
        """The LM's program, or the given one if the answer has none, such as "no change needed"."""
        try:
            answer: str = self.predict(task=task, input_impl=impl, config=self._config()).output_impl
        except AdapterParseError:
            return impl
        return answer if holds_program(answer) else impl

    def _config(self) -> dict[str, Any]:
        """At temperature 0 one seed for all samples, so that DSPy's response cache answers equal requests once."""
        lm = self.predict.lm or dspy.settings.lm
        return {"seed": 0} if lm is not None and lm.kwargs.get("temperature") == 0 else {}


@lru_cache(maxsize=1024)
def _scope(task: Task) -> Scope:
    return static_scope(task)


def _affine_violation(task: Task, impl: str) -> Program | None:
    """The program if it parses and consumes a stream more than once."""
    program, diagnostics = parse(impl, _scope(task))
    return program if not diagnostics and check_affine(program) else None
