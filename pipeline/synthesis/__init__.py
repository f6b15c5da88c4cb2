"""Classical program synthesis: a baseline that runs its candidates, and so is not a proposer of the agent.

    outcome = synthesize(load_task("task.yaml"), SearchBudget(seconds=60))

    type_space            the types that streams may have, and coercion paths between them
    operand_shapes        where streams of given types can meet
    rules, rulebook       which functions apply to which types, and those within reach of a round
    batch_execution       runs rules on blocks of streams (value_blocks), within the budget (search_budget)
    bottom_up             makes streams from the inputs
    top_down              finds the values that would do, from the outputs
    observation           inputs, outputs and landmarks on data; reference_values records what the reference computes
    next_lines            the legal next lines of a program by types; reachability looks ahead
    search_round          one round, until landmarks are reached; the program where both sides meet
    phases                what rounds leave out at first, widened step by step
    bidirectional_search  the rounds, phase by phase
    parallel_search       searches for many tasks in processes that may be killed

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
