"""What a run spends is counted once, and compared with its limits."""

from __future__ import annotations

import time

from optimizers import Budget, TokenCount
from optimizers.ledger import Ledger
from optimizers.metric import JUDGE
from optimizers.spending import Spending


def test_samples_and_overhead_add_up_per_predictor() -> None:
    """A predictor that both use has one count; the overhead's own count stays as it is."""
    overhead = Ledger()
    overhead.merge({"propose": TokenCount(calls=1, prompt=10), JUDGE: TokenCount(calls=1, prompt=100)})
    spending = Spending(Budget(), overhead)
    spending.add({"propose": TokenCount(calls=1, prompt=5, completion=2)})
    assert spending.tokens["propose"] == TokenCount(calls=2, prompt=15, completion=2)
    assert spending.tokens[JUDGE].prompt == 100
    assert spending.overhead_input == 10
    assert overhead.counts["propose"].prompt == 10


def test_tokens_of_a_judge_count_towards_its_own_limit_only() -> None:
    """A run that is judged by an LM ends when its own tokens, or those of the judge, reach a limit."""
    spending = Spending(Budget(tokens=8, judge_tokens=50))
    spending.add({"propose": TokenCount(prompt=7), JUDGE: TokenCount(prompt=49)})
    assert spending.reached() is None
    spending.add({"propose": TokenCount(completion=1)})
    assert spending.reached() == "8 tokens of 8"
    judged = Spending(Budget(tokens=8, judge_tokens=50))
    judged.add({JUDGE: TokenCount(prompt=50)})
    assert judged.reached() == "50 tokens of the LM judge of 50"


def test_the_time_counts_from_the_start() -> None:
    """Without a limit there is no deadline."""
    late = Spending(Budget(minutes=1), _started=time.monotonic() - 61)
    assert late.overdue and late.reached() is not None and late.reached().endswith("minutes of 1")
    early = Spending(Budget(minutes=60))
    assert not early.overdue and early.reached() is None and early.deadline is not None
    assert Spending().deadline is None and not Spending().overdue
