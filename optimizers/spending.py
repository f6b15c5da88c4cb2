"""What a run has spent, against its limits.

Invariants: everything paid for is counted once; the time counts from the start of the run.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from optimizers.budget import Budget
from optimizers.deadline import Deadline
from optimizers.ledger import Ledger, TokenCount
from optimizers.metric import JUDGE


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
        """Adds what a sample cost, per predictor."""
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
