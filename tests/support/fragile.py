"""Searches that fail with an error of their own for one task, in a worker."""

from collections.abc import Sequence
from unittest import mock

from pipeline.synthesis import bidirectional_search, parallel_search, repair_search
from pipeline.synthesis.search_budget import RepairOutcome, SearchBudget, SearchOutcome

_SEARCH, _REPAIR = parallel_search._search, parallel_search._repair


def _fails(*_: object) -> float:
    return 1 / 0


def search(name: str, content: str, budget: SearchBudget, drafts: Sequence[str]) -> SearchOutcome:
    """As the project's own, whose search fails for the task named `broken`."""
    if name != "broken":
        return _SEARCH(name, content, budget, drafts)
    with mock.patch.object(bidirectional_search, "synthesize", _fails):
        return _SEARCH(name, content, budget, drafts)


def repair(name: str, content: str, failures: Sequence[str], seconds: float) -> RepairOutcome:
    """As the project's own, whose search fails for the task named `broken`."""
    if name != "broken":
        return _REPAIR(name, content, failures, seconds)
    with mock.patch.object(repair_search, "repair_failures", _fails):
        return _REPAIR(name, content, failures, seconds)
