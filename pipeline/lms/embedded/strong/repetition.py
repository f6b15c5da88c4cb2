"""Functions that are applied again: in another round of a loop, or to what is like their earlier operands."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection

from pipeline.lms.embedded.draft import Draft, Move
from pipeline.lms.embedded.types.coercions import cut, dims_of
from pipeline.lms.embedded.types.type_table import TypeId, TypeTable

# Scores, in the units of the softmax at sharpness 1.
_ANALOGOUS = 2.0
"""For applying a function again to something like its earlier operand that is not used yet,"""
_NEXT_ROUND = 10.0
"""and where that begins another round of as many as a loop of the reference has."""


def meets_itself(move: Move) -> bool:
    """Whether a function takes a stream twice, so that each element meets only itself."""
    operands = zip(move.sources, move.coercions, strict=True)
    return any(one == other for one, other in itertools.combinations(operands, 2))


def analogy(table: TypeTable, draft: Draft, move: Move, rounds: int) -> float:
    """The score of a move that repeats a function, for operands like its earlier ones that nothing has taken yet.

    `rounds` is how often the loop that the draft imitates runs; 1 for no loop.
    """
    fresh = {stream for stream in move.sources if not draft.uses[stream]}
    first, best = len(table.inputs), 0.0
    count = sum(each.fns == move.fns for each in draft.moves)
    for place, other in enumerate(draft.moves):
        if other.fns != move.fns or other.routing is not move.routing:
            continue
        for old, new in zip(other.sources, move.sources, strict=False):
            if new not in fresh or not _alike(table, draft.streams[old], draft.streams[new]):
                continue
            best = max(best, _ANALOGOUS)
            # A single function applied to its own result does not count as a round.
            chained = new >= first and draft.moves[new - first].fns != move.fns
            again = new < first or (chained and _descends(draft, first, new, first + place))
            if count < rounds and again:
                best = _NEXT_ROUND
    return best


def in_rounds(draft: Draft, rounds: Collection[int]) -> bool:
    """Whether a draft applies a function as often as a loop of the reference runs."""
    counts = Counter(fn for move in draft.moves for fn in move.functions())
    return any(count in rounds for count in counts.values())


def _alike(table: TypeTable, one: TypeId, other: TypeId) -> bool:
    """Whether streams hold the same kind of elements: of one type, or with one list of dims."""
    a, b = table.types[one], table.types[other]
    return a.dtype == b.dtype or (cut(a.dtype)[0] == cut(b.dtype)[0] and dims_of(a) == dims_of(b))


def _descends(draft: Draft, first: int, stream: int, ancestor: int) -> bool:
    """Whether a stream is made of another one; `first` is the number of inputs."""
    made_of = {stream}
    for place in range(stream, ancestor, -1):
        if place in made_of:
            made_of.update(draft.moves[place - first].sources)
    return ancestor in made_of
