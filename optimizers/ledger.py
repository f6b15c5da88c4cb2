"""The cost of LM calls, per named predictor.

Invariants: every call is counted once, also if it fails; tokens paid for and tokens of answers from DSPy's cache
never share a column; counts only grow; adding is safe from several threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

Whole = Annotated[int, Field(ge=0, le=10**15)]
"""A count, as it can be in a record."""


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Tokens and calls of one predictor; counts can be added.

    Attributes:
        calls: Requests made: answered, failed, retried and answered by the cache.
        failed: Those of `calls` that the LM did not answer.
        cache_hits: Those of `calls` that DSPy's response cache answered.
        prompt: Input tokens of the calls that reached the LM.
        completion: Output tokens of the calls that reached the LM.
        cached_prompt: Input tokens of answers from the response cache, which cost nothing.
        cached_completion: Output tokens of answers from the response cache.
        provider_cached: Those tokens of `prompt` that the provider read from its own prompt cache, at a lower price.
        provider_written: Those tokens of `prompt` that the provider wrote to that cache, at a price of their own.
        usd: Dollars, over the calls with a known price.
        unpriced: Answered calls without a known price.
        truncated: Completions truncated at the token limit.
        estimated: Those tokens of `prompt` and `completion` that are estimates, as the LM reported none or absurd ones.
        short: Tokens by which the LM's counts of `prompt` and `completion` fall below what their texts can take.
        retried: Those of `failed` after which the request was made again.
    """

    calls: Whole = 0
    failed: Whole = 0
    cache_hits: Whole = 0
    prompt: Whole = 0
    completion: Whole = 0
    cached_prompt: Whole = 0
    cached_completion: Whole = 0
    provider_cached: Whole = 0
    usd: Annotated[float, Field(ge=0)] = 0.0
    unpriced: Whole = 0
    truncated: Whole = 0
    estimated: Whole = 0
    retried: Whole = 0
    short: Whole = 0
    provider_written: Whole = 0

    @property
    def cached(self) -> int:
        """Input and output tokens of answers from the response cache."""
        return self.cached_prompt + self.cached_completion

    @property
    def total(self) -> int:
        """Input and output tokens paid for."""
        return self.prompt + self.completion

    @property
    def budgeted(self) -> int:
        """The tokens that budgets count: those paid for, and at least one for 16 characters."""
        return self.total + self.short

    @property
    def input(self) -> int:
        """Input tokens of all answers, from the LM or from the cache."""
        return self.prompt + self.cached_prompt

    @property
    def cost(self) -> float | None:
        """Dollars, or None if no call had a known price."""
        return None if self.unpriced and not self.usd else self.usd

    def __add__(self, other: TokenCount) -> TokenCount:
        return TokenCount(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def to_dict(self) -> dict[str, int | float]:
        """The columns that are not zero."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name))}

    __jsonable__ = to_dict

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TokenCount:
        """The count that `to_dict` wrote."""
        return cls(**data)

    @classmethod
    def sum(cls, counts: Iterable[TokenCount]) -> TokenCount:
        """The sum of `counts`."""
        total = cls()
        for count in counts:
            total += count
        return total


class Ledger:
    """Counts per predictor name, of one sample or of a whole run."""

    def __init__(self) -> None:
        self._counts: dict[str, TokenCount] = {}
        self._lock = threading.Lock()

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        return self  # a module that deep-copies its LM still books here

    def add(self, name: str, count: TokenCount) -> None:
        """Adds `count` to predictor `name`."""
        with self._lock:
            self._counts[name] = self._counts.get(name, TokenCount()) + count

    def merge(self, counts: Mapping[str, TokenCount]) -> None:
        """Adds the counts of another ledger."""
        for name, count in counts.items():
            self.add(name, count)

    @property
    def counts(self) -> dict[str, TokenCount]:
        """The counts so far, by predictor name, sorted."""
        with self._lock:
            return dict(sorted(self._counts.items()))

    @property
    def total(self) -> TokenCount:
        """All predictors together."""
        return TokenCount.sum(self.counts.values())
