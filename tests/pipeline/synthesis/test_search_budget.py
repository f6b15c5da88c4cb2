"""A budget ends a search with the bound that was met."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.synthesis import SearchBudget, synthesize
from step_runtime.verification.loading import load_task
from tests.support.paths import PROJECT

DATA = PROJECT / "data"


def test_the_same_candidates_give_the_same_result() -> None:
    """Solved or not, all but the times are equal, and no more candidates are tried than allowed."""
    given = load_task(DATA / "tasks" / "norm" / "1.yaml")
    outcomes = [
        replace(synthesize(given, SearchBudget(seconds=1200, candidates=5_000)), seconds=0.0, processor=0.0)
        for _ in range(2)
    ]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0].reason == "candidates" and outcomes[0].candidates <= 5_000


@pytest.mark.parametrize(
    ("budget", "reason"), [(SearchBudget(seconds=0.01), "time"), (SearchBudget(numbers=2_000), "memory")]
)
def test_a_budget_ends_the_search(budget: SearchBudget, reason: str) -> None:
    """With no program, and with the bound that was met."""
    outcome = synthesize(load_task(DATA / "tasks" / "norm" / "1.yaml"), budget)
    assert (outcome.impl, outcome.reason) == (None, reason)
