"""Along which dims the streams of a draft vary: a stream that is only repeated along a dim does not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from pipeline.lms.embedded.draft import Move
from pipeline.lms.embedded.types.coercions import cut, factors, without_ones
from pipeline.lms.embedded.types.type_table import TypeId, TypeTable
from step_runtime.base.shapes import Dim
from step_runtime.base.types import components_of

Dims: TypeAlias = frozenset[Dim]


def parts(dims: Iterable[Dim]) -> Dims:
    """Dims as a set; a product of dims counts as its factors."""
    return frozenset(part for dim in without_ones(tuple(dims)) for part in factors(dim) or (dim,))


def all_dims(table: TypeTable, type_: TypeId) -> Dims:
    """All dims of a type: along these, an input varies."""
    stream = table.types[type_]
    return parts((*_buffered(table, type_), *stream.shape))


def _buffered(table: TypeTable, type_: TypeId) -> tuple[Dim, ...]:
    return tuple(dim for part in components_of(table.types[type_].dtype) for dim in cut(part)[1])


def after(table: TypeTable, move: Move, sources: Sequence[Dims]) -> tuple[Dims, int]:
    """The dims along which a move's result varies, and over how many dims it folds along which nothing varies."""
    varying = frozenset[Dim]().union(*sources)
    own = parts(_buffered(table, move.result))
    if move.fold is None:
        return varying | own, 0
    folded = parts(move.fold.inner)
    rest = varying | folded if move.fold.scan else varying - folded
    return rest | own, len(folded - varying)
