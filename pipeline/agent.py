"""The agent (paper, Section 4.1): a proposer writes a program, a guardian sees to the affine rule.

- An LM never sees a task's own `impl`, whatever task the agent is given.
- The predictors are `proposer.predict` and, in the modes that ask an LM, `guardian.predict`.
- Requests are written and answers read by `YAMLAdapter`, whatever DSPy is configured to.
- An answer that is no program is an answer all the same: its text is handed on, for the verifier to refuse.
"""

from __future__ import annotations

from typing import Literal, get_args

import dspy
from dspy.utils.exceptions import AdapterParseError

from pipeline.errors import UsageError
from pipeline.paths import PROJECT
from signatures import (
    Guard,
    GuardianPrompt,
    PromptError,
    Propose,
    ProposerPrompt,
    YAMLAdapter,
    by_identity,
    compose,
    holds_program,
    load_prompt,
)
from step_runtime.check import check_affine, insert_copies
from step_runtime.parser import parse
from step_runtime.printer import print_program
from step_runtime.program import Program
from step_runtime.scope import Scope, static_scope
from step_runtime.task import Task

PROMPTS = PROJECT / "data" / "prompts"

GuardianMode = Literal["gated", "paper", "compiler", "none"]


class Proposer(dspy.Module):
    """Writes a candidate program for a task.

    Args:
        instructions: the base prompt, composed.
    """

    def __init__(self, instructions: str) -> None:
        super().__init__()
        self.predict = dspy.Predict(Propose.with_instructions(instructions))

    def forward(self, task: Task) -> dspy.Prediction:
        """A prediction with `impl`."""
        try:
            impl = self.predict(task=task).impl
        except AdapterParseError as error:
            # The LM wrote nothing at all.
            impl = error.lm_response
        return dspy.Prediction(impl=impl)


class Guardian(dspy.Module):
    """Rewrites a program so that each stream is consumed at most once.

    Args:
        mode: `paper`, an LM sees every program; `gated`, only one that breaks the rule, by the exact check;
            `compiler`, such a program is mended by the pass that inserts Copy, without an LM; `none`, nothing is done.
        instructions: the base prompt, composed.

    Raises:
        ValueError: there is no such mode.
    """

    def __init__(self, mode: GuardianMode, instructions: str) -> None:
        super().__init__()
        if mode not in get_args(GuardianMode):
            raise ValueError(f"the guardian's mode is one of {', '.join(get_args(GuardianMode))}, not {mode!r}")
        self.mode = mode
        if mode in ("gated", "paper"):
            self.predict = dspy.Predict(Guard.with_instructions(instructions))

    def forward(self, task: Task, impl: str) -> dspy.Prediction:
        """A prediction with `impl`: the program to go on with."""
        if self.mode == "none":
            return dspy.Prediction(impl=impl)
        if self.mode == "paper":
            return dspy.Prediction(impl=self._ask(task, impl))
        program = _breaking_the_rule(task, impl)
        if program is None:
            return dspy.Prediction(impl=impl)
        mended = self._ask(task, impl) if self.mode == "gated" else print_program(insert_copies(program))
        return dspy.Prediction(impl=mended)

    def _ask(self, task: Task, impl: str) -> str:
        """The LM's program; the one that it was shown if it answers without a program, as "no change needed" would."""
        try:
            answer: str = self.predict(task=task, input_impl=impl).output_impl
        except AdapterParseError:
            return impl
        return answer if holds_program(answer) else impl


class Agent(dspy.Module):
    """Proposer and guardian.

    Args:
        guardian: the guardian's mode, see `Guardian`.
        proposer_prompt: the proposer's instructions; None for `data/prompts/proposer.yaml`.
        guardian_prompt: the guardian's instructions; None for `data/prompts/guardian.yaml`.

    Raises:
        UsageError: a base prompt's file can't be used.
        ValueError: the guardian has no such mode.
    """

    def __init__(
        self,
        guardian: GuardianMode = "gated",
        *,
        proposer_prompt: str | None = None,
        guardian_prompt: str | None = None,
    ) -> None:
        super().__init__()
        self.proposer = Proposer(_composed(ProposerPrompt, "proposer") if proposer_prompt is None else proposer_prompt)
        self.guardian = Guardian(
            guardian, _composed(GuardianPrompt, "guardian") if guardian_prompt is None else guardian_prompt
        )

    def forward(self, task: Task) -> dspy.Prediction:
        """A prediction with `impl`, the program, and `proposal`, what it was before the guardian.

        Raises:
            TypeError: `task` is no task.
        """
        if not isinstance(task, Task):
            raise TypeError(f"task: expected a Task, such as step_runtime.load_task gives, found {task!r:.80}")
        task = task if task.impl is None else task.without_impl()
        with dspy.context(adapter=YAMLAdapter()):
            proposal = self.proposer(task=task).impl
            impl = self.guardian(task=task, impl=proposal).impl
        return dspy.Prediction(impl=impl, proposal=proposal)


def _composed(model: type[ProposerPrompt] | type[GuardianPrompt], name: str) -> str:
    try:
        return compose(load_prompt(model, PROMPTS / f"{name}.yaml"))
    except PromptError as error:
        raise UsageError(str(error)) from None


@by_identity
def _scope(task: Task) -> Scope:
    return static_scope(task)


def _breaking_the_rule(task: Task, impl: str) -> Program | None:
    """The program if it parses and consumes a stream more than once."""
    program, findings = parse(impl, _scope(task))
    return program if not findings and check_affine(program) else None
