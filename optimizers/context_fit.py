"""A run's knowledge of its LM's context window, which grows from iteration to iteration.

Invariants: it depends on the settings and on the attempts of whole iterations only, so that a resumed run knows the
same; a stated limit below the size of an accepted prompt is ignored; a prompt of a rejected size is not sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import dspy

from optimizers.attempt import Attempt
from optimizers.context_window import Window
from optimizers.ledger import TokenCount
from optimizers.prompt_sizes import demo_count, longest_prompt, longest_task
from optimizers.sampling import Sampler, SampleResult, SampleSpec, TaskExample


class Refusal(NamedTuple):
    """An LM's refusal of an attempt's prompt: see the fields of `Attempt`."""

    too_long: bool
    refused: int
    window: int

    @classmethod
    def of(cls, attempt: Attempt) -> Refusal:
        """Of an attempt, which need not be kept for it."""
        return cls(attempt.too_long, attempt.refused, attempt.window)


@dataclass
class ContextFit:
    """The knowledge of a run.

    Attributes:
        tokens: The size of the window, in tokens; None if unknown.
        prior: Tokens of an earlier run, whose tokens per character hold until the run has its own.
        refused: Characters of the shortest rejected prompt; 0 for none.
        accepted: Characters of the longest prompt that has been answered.
        too_long: Keys of the tasks with prompts that are too long even without demonstrations.
    """

    tokens: int | None
    prior: Mapping[str, TokenCount] = field(default_factory=dict)
    refused: int = 0
    accepted: int = 0
    too_long: set[str] = field(default_factory=set)

    def window(self, counts: Mapping[str, TokenCount]) -> Window:
        """The window as far as it is known, from the run's tokens so far, per predictor."""
        own = [count for count in counts.values() if count.measured_chars]
        return Window.of(dspy.settings.lm, self.tokens, *(own or self.prior.values()), refused=self.refused)

    def learn(self, task: TaskExample, attempts: Sequence[Refusal], window: Window) -> None:
        """Learns from all attempts at a task in an iteration, before which so much was known of the window."""
        if attempts and all(attempt.too_long for attempt in attempts):
            self.too_long.add(task.key)
            return  # this is about the task; demonstrations were none
        for attempt in (each for each in attempts if each.refused):
            if attempt.window and attempt.window > window.prompt_tokens(self.accepted):
                self.tokens = min(self.tokens or attempt.window, attempt.window)
            self.refused = min(self.refused or attempt.refused, attempt.refused)

    def accept(self, program: dspy.Module, tasks: Sequence[TaskExample]) -> None:
        """Notes the prompts that were answered."""
        self.accepted = max(self.accepted, longest_prompt(program, [task.example for task in tasks]))

    def accepted_demos(
        self,
        program: dspy.Module,
        tasks: Sequence[TaskExample],
        sampler: Sampler,
        iteration: int,
        work: Callable[[SampleSpec], SampleResult],
    ) -> int:
        """How many of a program's demonstrations the LM accepts.

        If a prompt is longer than any that was answered, by an LM elsewhere, the first sample of the task with the
        longest one is made alone, before all others. So the LM refuses one request instead of every one, and all tasks
        are shown the same.

        `work` makes that sample, which `sampler` keeps.
        """
        lm: Any = dspy.settings.lm
        lead = tasks[longest_task(program, [task.example for task in tasks])]
        elsewhere = isinstance(getattr(lm, "engine", None), str)
        if not elsewhere or longest_prompt(program, [lead.example]) <= self.accepted:
            return demo_count(program)
        attempt = work(next(iter(sampler.samples(iteration, [lead])))).attempt
        if not attempt.scored:
            return demo_count(program)
        sampler.keep(attempt)
        return demo_count(program) - attempt.left_out
