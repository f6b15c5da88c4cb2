"""What a growing draft leaves to be done: streams, dims and functions for which there may be no use."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

from pipeline.lms.embedded.operands import Callee
from pipeline.lms.embedded.task_view import TaskView
from pipeline.lms.embedded.types.coercions import cut, dims_of, factors, without_ones
from pipeline.lms.embedded.types.type_table import TypeId
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Dim
from step_runtime.base.types import STuple, components_of

# Scores, in the units of the softmax at sharpness 1.
_LEFT = -0.55
"""For each function left to apply,"""
_STRANDED = -1.12
"""each stream, and each function's result, that nothing left can take,"""
_STUCK = -0.67
"""each dim that nothing left can remove,"""
_UNFOLDED = -0.52
"""each dim to be folded beyond one for each function left that folds,"""
_MISSING = -0.31
"""each dim of the outputs that no unused stream has,"""
_APART = -0.83
"""and each two tuples that a function takes together and that can't be brought to one shape."""


class Outlook:
    """The outlook of drafts of one task, by the types of their unused streams and the functions left to apply."""

    def __init__(self, view: TaskView, callees: Sequence[Callee]) -> None:
        self._view = view
        self._table = view.table
        self._callees = callees
        alone = {callee.fn for callee in callees if not callee.routed}
        self._merging = frozenset(callee.fn for callee in callees if callee.routed and callee.fn in alone)
        """The functions that merge a routing and may fold what it gives as well."""
        self._finals = {cut(output.dtype)[0] for output in view.scope.outputs}
        self._bits: dict[Dim, int] = {}
        self._wanted = self.parts(dim for dims in self._table.output_dims for dim in dims)
        self._held: dict[TypeId, int] = {}
        self._outside: dict[TypeId, int] = {}
        self._takers: dict[TypeId, frozenset[Fn]] = {}
        self._open: dict[tuple[TypeId, frozenset[Fn]], float] = {}
        self._kept: dict[frozenset[Fn], int] = {}
        self._known: dict[tuple[frozenset[Fn], tuple[TypeId, ...]], float] = {}

    def parts(self, dims: Iterable[Dim]) -> int:
        """Dims as bits; a product of dims has the bits of its factors."""
        bits = 0
        for dim in dims:
            for part in factors(dim) or (dim,):
                bits |= 1 << self._bits.setdefault(part, len(self._bits))
        return bits

    def held(self, type_: TypeId) -> int:
        """All dims of a type, as bits."""
        known = self._held.get(type_)
        if known is None:
            stream = self._table.types[type_]
            inner = (dim for part in components_of(stream.dtype) for dim in cut(part)[1])
            known = self._held[type_] = self.parts(without_ones((*inner, *stream.shape)))
        return known

    def score(self, unused: Sequence[TypeId], left: frozenset[Fn]) -> float:
        """The score of a draft by its unused streams that are no inputs or are, and the functions left."""
        key = (left, tuple(sorted(unused)))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._score(unused, left)
        return known

    def _score(self, unused: Sequence[TypeId], left: frozenset[Fn]) -> float:
        score = _LEFT * len(left) + _STRANDED * self._view.stranded(left)
        held, outside, made = 0, 0, Counter(self._table.types[type_].dtype for type_ in unused)
        applicable = left | self._merging
        for type_ in unused:
            score += self._stream(type_, applicable)
            held |= self.held(type_)
            outside |= self._outer(type_)
        score += _STRANDED * self._view.shortage(left, made)
        score += _MISSING * (self._wanted & ~held).bit_count()
        folding = sum(fn.stateful for fn in applicable)
        score += _UNFOLDED * max(0, (outside & ~self._staying(applicable)).bit_count() - folding)
        tuples = [type_ for type_ in unused if isinstance(self._table.types[type_].dtype, STuple)]
        return score + _APART * sum(
            self._view.apart(fn, one, other) for fn in left for one, other in itertools.combinations(tuples, 2)
        )

    def _stream(self, type_: TypeId, left: frozenset[Fn]) -> float:
        """The score of one unused stream."""
        key = (type_, left)
        known = self._open.get(key)
        if known is None:
            stream = self._table.types[type_]
            final = cut(stream.dtype)[0] in self._finals
            known = 0.0 if final or not left.isdisjoint(self._taking(type_)) else _STRANDED
            removable = self._view.removable(left)
            if removable is not None:
                known += _STUCK * sum(dim not in removable for dim in without_ones(dims_of(stream)))
            self._open[key] = known
        return known

    def _taking(self, type_: TypeId) -> frozenset[Fn]:
        """The functions that can take a stream of a type."""
        known = self._takers.get(type_)
        if known is None:
            takers = (c for c in self._callees if any(c.fit(type_, place)[0] for place in range(len(c.need))))
            known = self._takers[type_] = frozenset().union(*(callee.made_of for callee in takers))
        return known

    def _outer(self, type_: TypeId) -> int:
        known = self._outside.get(type_)
        if known is None:
            known = self._outside[type_] = self.parts(without_ones(self._table.types[type_].shape))
        return known

    def _staying(self, left: frozenset[Fn]) -> int:
        """The dims that need not be folded: those of the outputs, and of Buffers that functions take."""
        known = self._kept.get(left)
        if known is None:
            buffered = (dim for fn in left for part in components_of(fn.input) for dim in cut(part)[1])
            known = self._kept[left] = self._wanted | self.parts(buffered)
        return known
