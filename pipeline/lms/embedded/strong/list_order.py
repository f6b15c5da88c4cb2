"""The order in which a task lists its functions and inputs: mostly that in which they are applied first, and taken."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from pipeline.lms.embedded.operands import Callee, Operands
from step_runtime.base.functions import Fn

# Scores, in the units of the softmax at sharpness 1.
_SKIPPED = -2.6
"""For each function that is not applied although one listed after it is,"""
_BACKWARDS = -0.76
"""for applying a function to what one listed after it gives,"""
_FOLLOWING = 0.91
"""or to what the one listed before it gives,"""
_TURNED = -0.55
"""and for inputs in another order than listed."""

_AHEAD = 2
"""The number of functions, of those that are not applied yet, of which one may be applied next."""


class ListOrder:
    """The order of a task's functions, for a search that trusts it; `first` is the number of inputs."""

    def __init__(self, fns: Sequence[Fn], first: int) -> None:
        self._place = {fn: place for place, fn in enumerate(fns)}
        self._first = first

    def skipped(self, applied: Sequence[int]) -> float:
        """The score of a draft by how often each function is applied, in the order of the list."""
        places = [place for place, count in enumerate(applied) if count]
        return _SKIPPED * (max(places, default=-1) + 1 - len(places))

    def premature(self, callee: Callee, applied: Sequence[int]) -> bool:
        """Whether too many functions listed before a callee are not applied yet."""
        left = [place for place, count in enumerate(applied) if not count][:_AHEAD]
        return bool(left) and self._listed(callee) > left[-1]

    def taking(self, callee: Callee, operands: Operands, makers: Sequence[Sequence[Fn]]) -> float:
        """The score of operands; `makers` are the functions that make each of them."""
        place = self._listed(callee)
        made = [max(map(self._place.__getitem__, fns)) for fns in makers if fns]
        given = [source for source in operands.sources if source < self._first]
        turned = sum(one > other for one, other in itertools.pairwise(given))
        return _BACKWARDS * sum(maker > place for maker in made) + _FOLLOWING * (place - 1 in made) + _TURNED * turned

    def _listed(self, callee: Callee) -> int:
        return min(map(self._place.__getitem__, callee.made_of))
