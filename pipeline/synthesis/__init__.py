"""Classical program synthesis: a baseline that runs what it tries, and thus no proposer of the agent's.

    outcome = synthesize(load_task("task.yaml"), SearchBudget(seconds=60))

`space` has the types that streams may have, `rules` which functions apply to which types; `forward` makes streams
bottom-up, `backward` finds the values that would do top-down, `search` lets them meet, `build` writes the program;
`session` does it for many tasks in processes that may be killed. Nothing is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.synthesis.bidirectional_search import synthesize
    from pipeline.synthesis.search_budget import SearchBudget, SearchOutcome

__all__ = ["SearchBudget", "SearchOutcome", "synthesize"]


def __getattr__(name: str) -> Any:
    """What `__all__` names, imported when first used: the search needs torch, its budget does not."""
    if name == "synthesize":
        from pipeline.synthesis.bidirectional_search import synthesize

        return synthesize
    if name in __all__:
        from pipeline.synthesis import search_budget

        return getattr(search_budget, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
