"""Searches that fail with an error of their own for one task, in a worker."""

from unittest import mock

from pipeline.synthesis import bidirectional_search, parallel_search
from pipeline.synthesis.search_budget import SearchBudget, SearchOutcome

_SEARCH = parallel_search._search


def _fails(*_: object) -> float:
    return 1 / 0


def search(name: str, content: str, budget: SearchBudget) -> SearchOutcome:
    """As the project's own, whose search fails for the task named `broken`."""
    if name != "broken":
        return _SEARCH(name, content, budget)
    with mock.patch.object(bidirectional_search, "synthesize", _fails):
        return _SEARCH(name, content, budget)
