"""The budget of a run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from optimizers.arguments import validated
from optimizers.attempt import JUDGE
from optimizers.errors import RunStopped
from optimizers.ledger import Ledger, TokenCount
from optimizers.requests import Deadline

NOTHING = TokenCount()
Limit = Annotated[float, Field(ge=0)]
Number = Annotated[int, Field(ge=0)]
SMALLEST_BASE = 32
"""The least number of samples on which the share of failures is judged; all samples in a smaller iteration."""


@validated
class Budget:
    """Limits of a run; None means no limit.

    Samples in flight when a limit is reached are still awaited, but no request lasts beyond `minutes`, and what is then
    still in flight is awaited for seconds only.

    Attributes:
        iterations: Iterations started.
        tokens: Input and output tokens paid for, those of an LM judge in the metric excepted; where an LM reports less
            than a token for 16 characters, that many.
        usd: Dollars, over the calls with a known price.
        minutes: Wall time, in minutes.
        context: Tokens that a prompt and the LM's longest answer may have together; demonstrations that do not fit are
            omitted, from the end of the prompt's order.
        demos: Demonstrations in a prompt; further ones are omitted likewise.
        demo_tokens: Estimated tokens that all demonstrations of a prompt together may have; further ones are omitted,
            likewise.
        failures: Share of an iteration's samples that may have no answer. Three kinds of failure do not count, as they
            are about the task or the answer: those of a task without any answer in an earlier iteration, and prompts
            that are too long for the LM even without demonstrations, while other tasks are answered; and exceptions of
            the program or the metric, other than the LM's and an `OSError`, once they have worked for some answer.
        judge_tokens: Input and output tokens paid for by the metric.
        calls: Requests to LMs, those answered from a cache and those of the metric excepted.

    Raises:
        TypeError: A limit is not a number.
        ValueError: A limit is negative, or `failures` is not a share.
    """

    iterations: Number | None = None
    tokens: Number | None = None
    usd: Limit | None = None
    minutes: Limit | None = None
    context: Number | None = None
    demo_tokens: Number | None = None
    demos: Number | None = None
    failures: Annotated[float, Field(ge=0, le=1)] = 0.25
    judge_tokens: Number | None = None
    calls: Number | None = None

    @property
    def limited(self) -> bool:
        """Whether a run can't go on for ever."""
        limits = (self.iterations, self.tokens, self.judge_tokens, self.usd, self.minutes, self.calls)
        return any(limit is not None for limit in limits)

    def reached(self, spent: TokenCount, seconds: float, judging: TokenCount = NOTHING) -> str | None:
        """The limit that has been reached, in words, or None.

        `judging` is the metric's part of the spending; `seconds` is wall time.
        """
        own = spent.budgeted - judging.budgeted
        if self.tokens is not None and own >= self.tokens:
            return f"{own} tokens of {self.tokens}"
        if self.judge_tokens is not None and judging.budgeted >= self.judge_tokens:
            return f"{judging.budgeted} tokens of the LM judge of {self.judge_tokens}"
        if (
            self.calls is not None
            and (asked := spent.calls - spent.cache_hits - judging.calls + judging.cache_hits) >= self.calls
        ):
            return f"{asked} requests of {self.calls}"
        if self.usd is not None and spent.usd >= self.usd:
            return f"{spent.usd:.4f} USD of {self.usd:g}"
        if self.minutes is not None and self.overdue(seconds):
            return f"{seconds / 60:.{1 if self.minutes >= 1 else 3}f} minutes of {self.minutes:g}"
        return None

    def deadline(self, started: float) -> Deadline | None:
        """The end of a run that started then, in the seconds of `time.monotonic`; None if its time is not limited."""
        return None if self.minutes is None else Deadline(started + 60 * self.minutes)

    def overdue(self, seconds: float) -> bool:
        """Whether the time is up."""
        return self.minutes is not None and seconds >= 60 * self.minutes

    def too_many_failures(self, failed: int, done: int, total: int = SMALLEST_BASE, most: int | None = None) -> bool:
        """Whether the LM fails too often, judged on at least 32 samples, or on all of a smaller iteration.

        With `most`, whether it has failed as often as that.
        """
        return failed >= most if most is not None else failed > self.failures * max(done, min(total, SMALLEST_BASE))


@dataclass(frozen=True)
class Spending:
    """Tokens and time of a run.

    Attributes:
        budget: The limits.
        overhead: Tokens of another optimizer within the run, which are not spent on samples.
    """

    budget: Budget = field(default_factory=Budget)
    overhead: Ledger = field(default_factory=Ledger)
    _samples: Ledger = field(default_factory=Ledger)
    _started: float = field(default_factory=time.monotonic)

    def add(self, tokens: Mapping[str, TokenCount]) -> None:
        """Adds the tokens of a sample, per predictor."""
        self._samples.merge(tokens)

    @property
    def tokens(self) -> dict[str, TokenCount]:
        """All tokens so far, per predictor."""
        total = Ledger()
        total.merge(self._samples.counts)
        total.merge(self.overhead.counts)
        return total.counts

    @property
    def overhead_input(self) -> int:
        """Prompt tokens of the overhead, those of an LM judge excepted."""
        return sum(count.input for name, count in self.overhead.counts.items() if name != JUDGE)

    @property
    def seconds(self) -> float:
        """Wall time since the start."""
        return time.monotonic() - self._started

    @property
    def deadline(self) -> Deadline | None:
        """When the time is over; None without a limit."""
        return self.budget.deadline(self._started)

    @property
    def overdue(self) -> bool:
        """Whether the time is over."""
        return self.budget.overdue(self.seconds)

    def reached(self) -> str | None:
        """The limit that has been reached, in words, or None."""
        spent = self.tokens
        return self.budget.reached(TokenCount.sum(spent.values()), self.seconds, judging=spent.get(JUDGE, TokenCount()))

    def stop(self) -> RunStopped:
        """What ends the run at a limit."""
        return RunStopped("budget", f"budget reached: {self.reached() or 'the time'}")
