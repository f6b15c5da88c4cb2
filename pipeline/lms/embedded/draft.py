"""Drafts: programs under construction, move by move.

A move applies one function (Map, Accum, Scan) or routes through several (Partition, Map on each, Merge) to existing
streams; the structural primitives in between are its coercions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from pipeline.lms.embedded.types.coercions import Coercion
from pipeline.lms.embedded.types.type_table import FoldSpec, TypeId
from step_runtime.base.functions import Fn
from step_runtime.base.types import Multihot

_MOST_BRANCHES = 4
"""With more branches than this, there are too many orders to try each."""


@dataclass(frozen=True)
class Routing:
    """Functions among which an index of `bits` bits chooses, and the function that folds what they return.

    Where the index has a bit more than there are branches, that bit lets its element pass unchanged. Without branches
    it selects: each bit stands for a stream of its own, whatever made it.
    """

    branches: tuple[Fn, ...]
    merge: Fn
    index: Multihot
    bits: int

    @property
    def selects(self) -> bool:
        """Whether its index chooses among streams."""
        return not self.branches

    @property
    def functions(self) -> frozenset[Fn]:
        """The functions that it applies."""
        return frozenset((*self.branches, self.merge))

    def passing(self) -> tuple[Fn | None, ...]:
        """The branches, in the order in which functions are listed, and None for a bit without one."""
        return (*self.branches, *(None,) * (self.bits - len(self.branches)))

    def orders(self) -> tuple[tuple[Fn | None, ...], ...]:
        """The orders in which branches may be assigned to bits, the listed order first; none if there are too many."""
        if self.selects:
            return (self.passing(),)
        return tuple(itertools.permutations(self.passing())) if self.bits <= _MOST_BRANCHES else ()


@dataclass(frozen=True)
class Move:
    """One function, or one routing, on sources; the last source of a routing is its index."""

    fns: tuple[Fn | None, ...]
    sources: tuple[int, ...]
    coercions: tuple[Coercion, ...]
    result: TypeId
    fold: FoldSpec | None = None
    routing: Routing | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Moves of one key compute the same from the same streams."""
        return (tuple(map(id, self.fns)), self.sources, self.result, self.fold)

    @property
    def maker(self) -> Fn | Routing:
        """What it applies."""
        return self.routing or next(self.functions())

    def functions(self) -> Iterator[Fn]:
        """The functions it applies."""
        yield from (fn for fn in self.fns if fn is not None)
        if self.routing is not None:
            yield self.routing.merge


@dataclass
class Draft:
    """A proposal under construction: its live streams by type, how often each is used, and the moves so far."""

    streams: list[TypeId]
    uses: list[int]
    moves: list[Move] = field(default_factory=list)
    keys: set[tuple[object, ...]] = field(default_factory=set)
    results: tuple[int, ...] = ()
    output_coercions: tuple[Coercion, ...] = ()
    read: bool = False
    """Whether, by the interpretation, the results are what the reference computes."""
    similarity: float = 0.0
    """How similarly the results and the outputs depend on the inputs, if that is known."""
    agreement: float = 1.0
    """How much of what its results get from positions of the inputs the outputs get from there, too."""
    computes: bool = False
    """Whether, by their formulas, the elements of the results are those of the outputs."""
    worth: float = 0.0
    """The score of its moves, if that is known."""
    repeated: float = 0.0
    """The part of its moves that repeat sections as a whole."""
    support: list[float] = field(default_factory=list)
    """How well precedents support each move."""

    @classmethod
    def start(cls, inputs: Sequence[TypeId]) -> Draft:
        """Nothing but the inputs."""
        return cls(list(inputs), [0] * len(inputs))

    def copy(self) -> Draft:
        """The draft as it is now."""
        return replace(
            self, streams=[*self.streams], uses=[*self.uses], moves=[*self.moves], support=[*self.support], keys=set()
        )

    def add(self, move: Move) -> None:
        """Makes the move."""
        for source in move.sources:
            self.uses[source] += 1
        self.moves.append(move)
        self.keys.add(move.key)
        self.streams.append(move.result)
        self.uses.append(0)
