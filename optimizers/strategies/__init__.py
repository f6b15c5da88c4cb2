"""Selection strategies by name: which solved tasks an iteration shows as demonstrations, and in what order.

`base` has the contract and the strategies that show every task the same; `coverage` those that choose for each task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from optimizers.errors import UnknownSelectionError
from optimizers.strategies.base import Adaptive, Everything, NoDemonstrations, RandomChoice, Resample, Selection
from optimizers.strategies.coverage import Coverage, Relevance

SELECTIONS: Mapping[str, Callable[[int], Selection]] = MappingProxyType(
    {
        "adaptive": Adaptive,
        "everything": lambda granularity: Everything(),
        "random": RandomChoice,
        "coverage": lambda granularity: Coverage(),
        "relevance": Relevance,
        "savings": lambda granularity: Everything(
            "savings", lambda entry: (entry.cost or 0) / entry.dearer[0] if entry.dearer else 1
        ),
        "none": lambda granularity: NoDemonstrations(),
        "resample": lambda granularity: Resample(),
    }
)
"""Factories of strategies with m levels; strategies without levels ignore m."""


def make_selection(selection: str | Selection, granularity: int = 3) -> Selection:
    """The strategy called `selection`, or `selection` itself if it is one.

    Raises:
        TypeError: It is neither a name nor a strategy.
        UnknownSelectionError: No strategy has that name; the message lists the known ones.
    """
    if isinstance(selection, Selection):
        return selection
    if not isinstance(selection, str):
        raise TypeError(f"selection: expected a name or an optimizers.Selection, found {type(selection).__name__}")
    if selection not in SELECTIONS:
        known = ", ".join(SELECTIONS)
        raise UnknownSelectionError(f"selection: unknown strategy {selection!r}; expected one of {known}")
    return SELECTIONS[selection](granularity)
