"""Classical program synthesis: a baseline that runs its candidates, and so is not a proposer of the agent.

    outcome = synthesize(load_task("task.yaml"), SearchBudget(seconds=60))

    type_space            the types that streams may have, paths between them, and where streams can meet
    rules                 which functions apply to which types, those within reach, and how programs are written
    bottom_up             makes streams from the inputs, in blocks (value_blocks), within the budget (search_budget)
    top_down              finds the values that would do, from the outputs
    observation           inputs, outputs, and what the reference computes on its way, on data
    bidirectional_search  rounds from both sides until landmarks are reached, and what they leave out at first
    parallel_search       searches for many tasks in processes that may be killed
    next_lines            the legal next lines of a program by types; line_grammar, what solved tasks say about them
    precedents, grammar   solved tasks as evidence; chart, what the embedded LM samples from

Nothing is imported before it is used.
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
