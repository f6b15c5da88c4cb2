"""What a run may spend."""

from __future__ import annotations

from dataclasses import dataclass

from optimizers.ledger import TokenCount


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a run; None is no limit. Samples in flight when one is reached are still waited for.

    Attributes:
        iterations: Iterations begun.
        tokens: Tokens paid for, in and out.
        usd: Dollars, over the calls whose price is known.
        minutes: Wall time.
        context: Tokens a prompt may have; demonstrations beyond are left out, easiest first.
        failures: Share of an iteration's samples that may stay without an answer. Left out are the failures of a task
            that got no answer in an earlier iteration, and prompts longer than the context window from the second
            iteration on, unless the LM was out of reach: these tell of the task, while others are answered.

    Raises:
        TypeError: A limit is no number.
        ValueError: A limit is negative, or `failures` is no share.
    """

    iterations: int | None = None
    tokens: int | None = None
    usd: float | None = None
    minutes: float | None = None
    context: int | None = None
    failures: float = 0.25

    def __post_init__(self) -> None:
        for name in self.__slots__:
            limit = getattr(self, name)
            if limit is not None and (not isinstance(limit, int | float) or isinstance(limit, bool)):
                raise TypeError(f"budget: {name}: expected a number, found {limit!r}")
            if limit is not None and not limit >= 0:
                raise ValueError(f"budget: {name} is {limit}, less than zero")
        if self.failures > 1:
            raise ValueError(f"budget: failures is a share between 0 and 1, not {self.failures}")

    def reached(self, spent: TokenCount, seconds: float) -> str | None:
        """The limit that `spent` and `seconds` have reached, in words, or None."""
        if self.tokens is not None and spent.total >= self.tokens:
            return f"{spent.total} tokens of {self.tokens}"
        if self.usd is not None and spent.usd >= self.usd:
            return f"{spent.usd:.4f} USD of {self.usd}"
        if self.minutes is not None and seconds >= 60 * self.minutes:
            return f"{seconds / 60:.{1 if self.minutes >= 1 else 3}f} minutes of {self.minutes}"
        return None

    def too_many_failures(self, failed: int, done: int, total: int) -> bool:
        """Whether the LM fails too often, judged on 32 samples at least, or all of a smaller iteration."""
        return failed > self.failures * max(done, min(total, 32))
