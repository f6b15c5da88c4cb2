"""A budget ends a search with the bound that was met."""

from dataclasses import replace

import pytest

from pipeline.synthesis import SearchBudget, synthesize
from tests.support.small_tasks import of_scalars

FNS = {"double": ("2 * input[0]", 1), "plus": ("input[0] + input[1]", 2)}
UNSOLVABLE = of_scalars(FNS, "torch.sin(input_data['E0'])")


def test_the_same_candidates_give_the_same_result() -> None:
    """All but the times are equal, and no more candidates are tried than allowed."""
    outcomes = [
        replace(synthesize(UNSOLVABLE, SearchBudget(seconds=1200, candidates=200)), seconds=0.0, processor=0.0)
        for _ in range(2)
    ]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0].reason == "candidates" and 0 < outcomes[0].candidates <= 200


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (SearchBudget(seconds=0.0), "time"),
        (SearchBudget(seconds=1200, numbers=300), "memory"),
        (SearchBudget(seconds=1200, meetings=3), "meetings"),
    ],
)
def test_a_budget_ends_the_search(budget: SearchBudget, reason: str) -> None:
    """With no program, and with the bound that was met."""
    outcome = synthesize(UNSOLVABLE, budget)
    assert (outcome.impl, outcome.reason) == (None, reason)
