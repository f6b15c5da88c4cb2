"""Indices of PyTorch on arrays of sources: which elements an index selects, and which ones it may change.

Integers, slices and constants select exactly. An index that depends on data may select any element along its dim, and
a mask that does any element of its dims; what it selects depends on the index, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.lms.embedded.formulas.spelling import spelled
from pipeline.lms.embedded.formulas.tape import Nodes, Tape
from pipeline.lms.embedded.influence.arrays import (
    ANY,
    Array,
    Sources,
    Unread,
    as_array,
    bounded,
    constant,
    nodes_of,
    tape_of,
    unknown,
    widened,
    with_nodes,
)
from pipeline.lms.embedded.influence.reductions import reduced


class _Plan(NamedTuple):
    """How an index is applied.

    Attributes:
        first: The index of integers, slices and new dims, which NumPy and PyTorch apply alike.
        lost: The dims of a tensor that an integer of data takes away.
        places: For each dim that `first` leaves, an index array, or None for all of the dim.
        unsure: The dims, of those that `first` leaves, whose index arrays depend on data.
        sources: What the index arrays depend on, of their common shape; 0 if on nothing.
        always: What integers of data depend on.
        masked: Which mask or slice of data is among the parts, so that elements may stay as they are; else empty.
        integers: The integers of data,
        arrays: and the index arrays that depend on data.
    """

    first: tuple[Any, ...]
    lost: tuple[int, ...]
    places: tuple[NDArray[np.int64] | None, ...]
    unsure: tuple[int, ...]
    sources: Sources
    always: Any
    masked: tuple[Any, ...]
    integers: tuple[Array, ...] = ()
    arrays: tuple[Array, ...] = ()


class _Index:
    """Takes the parts of an index one by one."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.axis = 0
        self.first: list[Any] = []
        self.lost: list[int] = []
        self.places: list[NDArray[np.int64] | None] = []
        self.unsure: list[int] = []
        self.sources: Sources = np.zeros((), np.uint64)
        self.always: Any = np.uint64(0)
        self.masked: tuple[Any, ...] = ()
        self.integers: list[Array] = []
        self.arrays: list[Array] = []

    def keep(self, part: slice) -> None:
        """A slice."""
        self.first.append(part)
        self.places.append(None)
        self.axis += 1

    def add(self, part: Any) -> None:
        """One part of the index, other than an ellipsis."""
        if part is None:
            self.first.append(None)
            self.places.append(None)
        elif isinstance(part, slice):
            self._add_slice(part)
        elif isinstance(part, int) and not isinstance(part, bool):
            self.first.append(part)
            self.axis += 1
        else:
            self._add_array(as_array(part))

    def _add_slice(self, part: slice) -> None:
        """A slice; one with an end of data is a mask of data."""
        ends = [one for one in (part.start, part.stop) if isinstance(one, Array)]
        if not ends:
            self.keep(part)
            return
        if part.step not in (None, 1):
            raise Unread("a slice of data with steps")
        size = self.shape[self.axis]
        known = slice(*(None if isinstance(one, Array) else one for one in (part.start, part.stop)))
        values = np.zeros(size)
        values[known] = np.nan
        every = np.bitwise_or.reduce([np.bitwise_or.reduce(one.sources, axis=None) for one in ends])
        self._add_mask(Array(np.broadcast_to(every, (size,)), values, truth=True), (part.start, part.stop, size))

    def _add_array(self, array: Array) -> None:
        if array.truth:
            self._add_mask(array)
        elif array.ndim:
            self.sources = self.sources | array.sources
            unsure = bool(np.isnan(array.values).any())
            self.arrays += [array] if unsure else []
            self._place(array.values, unsure)
        elif np.isnan(array.values):
            self.always = self.always | array.sources[()]
            self.lost.append(self.axis)
            self.integers.append(array)
            self.first.append(0)
            self.axis += 1
        else:
            self.add(int(array.values))

    def _add_mask(self, mask: Array, key: tuple[Any, ...] = ()) -> None:
        if not mask.ndim or mask.shape != self.shape[self.axis : self.axis + mask.ndim]:
            raise Unread("a mask of another shape")
        chosen = np.nonzero(mask.values)  # What is not known counts.
        if np.isnan(mask.values).any():
            self.masked = (*self.masked, key or (mask,))
            self.sources = self.sources | mask.sources[chosen]
        for part in chosen:
            self._place(part, False)

    def _place(self, values: NDArray[Any], unsure: bool) -> None:
        if unsure:
            self.unsure.append(len(self.places))
            values = np.zeros(values.shape)
        self.first.append(slice(None))
        self.places.append(values.astype(np.int64))
        self.axis += 1


def _planned(shape: tuple[int, ...], index: Any) -> _Plan:
    parts = list(index) if isinstance(index, tuple) else [index]
    taken = [_taken(part) for part in parts]
    if sum(taken) > len(shape):
        raise Unread("an index of more dims than there are")
    plan = _Index(shape)
    for part in parts:
        if part is Ellipsis:
            for _ in range(len(shape) - sum(taken)):
                plan.keep(slice(None))
        else:
            plan.add(part)
    while plan.axis < len(shape):
        plan.keep(slice(None))
    return _Plan(tuple(plan.first), tuple(plan.lost), tuple(plan.places), tuple(plan.unsure), plan.sources, plan.always,
                 plan.masked, tuple(plan.integers), tuple(plan.arrays))  # fmt: skip


def _taken(part: Any) -> int:
    """The number of dims that a part of an index applies to."""
    if part is None or part is Ellipsis:
        return 0
    if isinstance(part, list | tuple | range | Array):
        array = as_array(part)
        return array.ndim if array.truth else 1
    if isinstance(part, int | slice) and not isinstance(part, bool):
        return 1
    raise Unread("an index of an unknown kind")


def selected(value: Array, index: Any) -> Array:
    """The part of a tensor that an index selects; of a mask of data, as many elements as there could be.

    Raises:
        Unread: The index is of an unknown kind.
    """
    plan = _planned(value.shape, index)
    result = _selected(value, plan)
    return _chosen(result, value, plan) if plan.lost or plan.unsure else result


def _chosen(result: Array, value: Array, plan: _Plan) -> Array:
    """The formulas of what an index of data selects: a sum over all places, each if the index is it."""
    tape = tape_of(value, *plan.integers, *plan.arrays)
    if tape is None or len(plan.lost) + len(plan.unsure) != 1 or plan.masked:
        return result
    nodes, own = nodes_of(value, tape), nodes_of((*plan.integers, *plan.arrays)[0], tape)
    if nodes is None or own is None:
        return result
    if plan.lost:
        (axis,) = plan.lost
        firsts = [plan.first[:place] for place in range(len(plan.first) + 1)]
        at = next(place for place, part in enumerate(plan.first) if not isinstance(part, slice) and part is not None
                  and len([one for one in firsts[place] if one is not None]) == axis)  # fmt: skip
        picks = [
            nodes[(*plan.first[:at], place, *plan.first[at + 1 :])] for place in range(value.shape[axis])
        ]  # fmt: skip
        if any(place is not None for place in plan.places):
            return result
    else:
        (axis,) = plan.unsure
        first = nodes[plan.first]
        picks = [
            first[tuple(slice(None) if one is None else np.full_like(one, place) if other == axis else one
                        for other, one in enumerate(plan.places))]
            for place in range(first.shape[axis])
        ]  # fmt: skip
        own = _aligned(own, plan)
    found = None
    for place, pick in enumerate(picks):
        here = _is_place(tape, own, place)
        part = None if here is None else tape.apply("multiply", here, np.asarray(pick))
        found = part if place == 0 else None if part is None or found is None else tape.apply("add", found, part)
    return result if found is None or found.shape != result.shape else with_nodes(result, tape, found)


def _is_place(tape: Tape, index: Nodes, place: int) -> Nodes | None:
    """Whether an index of data is a place."""
    return spelled(tape, "eq", [index, tape.constants(place)], ())


def _selected(value: Array, plan: _Plan) -> Array:
    for axis in plan.lost:
        value = _anywhere(value, axis)
    value = value.through(lambda part: np.asarray(part[plan.first]))  # A ragged one is widened.
    if any(place is not None for place in plan.places):
        value = _picked(value, plan)
    if plan.lost:
        return unknown(value.sources | plan.always)
    return value


def _picked(value: Array, plan: _Plan) -> Array:
    """What index arrays pick."""
    for axis in plan.unsure:
        value = _anywhere(value, axis)
    places = tuple(slice(None) if place is None else place for place in plan.places)
    result = value.through(lambda part: np.asarray(part[places]))
    if not (plan.unsure or plan.masked):
        return result
    found = unknown(result.sources | _aligned(plan.sources, plan), ragged=plan.masked)
    if plan.masked and (plan.places[0] is None or len(plan.masked) > 1):
        first = next(axis for axis, place in enumerate(plan.places) if place is not None)
        return unknown(_anywhere(found, min(first, found.ndim - 1)).sources, ragged=ANY)
    return found


def _aligned(array: NDArray[Any], plan: _Plan) -> NDArray[Any]:
    """An array of the index arrays' common shape, with the dims that come after it in what they select."""
    at = [axis for axis, place in enumerate(plan.places) if place is not None]
    beside = at[-1] - at[0] == len(at) - 1
    after = len(plan.places) - (at[-1] + 1 if beside else len(at))
    shape = np.broadcast_shapes(*(place.shape for place in plan.places if place is not None))
    return np.broadcast_to(array, shape).reshape((*shape, *[1] * after))


def _anywhere(value: Array, axis: int) -> Array:
    """Each element by all of those along a dim."""
    every = reduced(value, axis, keepdim=True).sources
    return unknown(np.broadcast_to(every, value.shape))


def replaced(value: Array, index: Any, part: Any, *, added: bool = False) -> Array:
    """A tensor with what an index selects replaced, or with a part added to it.

    Raises:
        Unread: The index is of an unknown kind, or the part does not fit.
    """
    plan = _planned(value.shape, index)
    numbers = constant(np.arange(value.values.size).reshape(value.shape))
    places = numbers.values[plan.first]
    if any(place is not None for place in plan.places):
        places = places[tuple(slice(None) if place is None else place for place in plan.places)]
    new = as_array(part)
    if plan.masked and new.ragged != plan.masked and new.ndim >= np.ndim(places) and new.shape[:1] > (1,):
        new = widened(new).through(lambda own: own[:1])  # As many as the mask selects, in its order.
    new = _fitting(new, np.shape(places))
    truth = value.truth and new.truth
    kind = np.result_type(value.sources, new.sources, plan.sources)
    sources, values = value.sources.astype(kind).reshape(-1), value.values.astype(np.float64).reshape(-1)
    if plan.unsure or plan.masked or plan.lost or added:
        gained = new.sources | plan.always
        if plan.unsure or plan.masked:
            gained = gained | _aligned(plan.sources, plan)
        candidates = _candidates(np.asarray(places, np.int64), value.shape, plan)
        np.bitwise_or.at(sources, candidates, np.broadcast_to(gained[..., None], candidates.shape).astype(kind))
        values[candidates] = np.nan
    else:
        flat = np.asarray(places, np.int64)
        sources[flat], values[flat] = new.sources, new.values
    result = Array(sources.reshape(value.shape), values.reshape(value.shape), truth)
    return _restored(result, value, new, np.asarray(places, np.int64), plan, added=added)


def _restored(result: Array, value: Array, new: Array, places: Any, plan: _Plan, *, added: bool) -> Array:
    """The formulas of a tensor of which an index replaces a part."""
    tape = tape_of(value, new, *plan.integers, *plan.arrays)
    if tape is None or plan.masked:
        return result
    nodes, part = nodes_of(value, tape), nodes_of(new, tape)
    if nodes is None or part is None:
        return result
    nodes, part = nodes.reshape(-1).copy(), np.broadcast_to(part, places.shape)
    if plan.unsure or plan.lost:
        return _distributed(result, nodes, part, places, plan, tape, added=added)
    if not added:
        nodes[places] = part
        return with_nodes(result, tape, nodes.reshape(value.shape))
    for place, own in zip(places.reshape(-1).tolist(), part.reshape(-1).tolist(), strict=True):
        sum_ = tape.apply("add", nodes[place : place + 1], np.array([own]))
        if sum_ is None:
            return result
        nodes[place] = sum_[0]
    return with_nodes(result, tape, nodes.reshape(value.shape))


def _distributed(result: Array, nodes: Any, part: Any, places: Any, plan: _Plan, tape: Any, *, added: bool) -> Array:
    """As `_restored`, where data decide which elements are replaced: each is, if the index is its place.

    No two places of the index are taken to be the same, as PyTorch does not say which part remains.
    """
    if len(plan.lost) + len(plan.unsure) != 1:
        return result
    own = nodes_of((*plan.integers, *plan.arrays)[0], tape)
    if own is None:
        return result
    own = np.broadcast_to(_aligned(own, plan) if plan.unsure else own, places.shape)
    candidates = _candidates(places, result.shape, plan)
    given = nodes.copy()
    for each in np.ndindex(places.shape):
        for place, target in enumerate(candidates[each].tolist()):
            here = _is_place(tape, own[each], place)
            before = nodes[target : target + 1]
            gap = part[each] if added else tape.apply("subtract", part[each], given[target])
            change = None if here is None or gap is None else tape.apply("multiply", here, np.asarray(gap))
            after = None if change is None else tape.apply("add", before, change)
            if after is None:
                return result
            nodes[target] = after.reshape(-1)[0]
    return with_nodes(result, tape, nodes.reshape(result.shape))


def _fitting(part: Array, shape: tuple[int, ...]) -> Array:
    while part.ndim > len(shape) and part.shape[0] == 1:
        part = part.through(lambda own: own[0])
    return replace(part, ragged=())._moved(lambda own: np.broadcast_to(own, shape))


def _candidates(places: NDArray[np.int64], shape: tuple[int, ...], plan: _Plan) -> NDArray[np.int64]:
    """The numbers of the elements that each selected one may be: those along the dims that data index."""
    strides = [int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape))]
    kept = [axis for axis in range(len(shape)) if not _is_taken(plan.first, axis)]
    dims = [part is not None for part in plan.first if not isinstance(part, int)]
    own = [kept[sum(dims[:place])] for place in plan.unsure]
    offsets = np.zeros(1, np.int64)
    for axis in (*plan.lost, *own):
        offsets = (offsets[:, None] + np.arange(shape[axis]) * strides[axis]).reshape(-1)
    bounded((*places.shape, len(offsets)))
    return np.asarray(places[..., None] + offsets)


def _is_taken(first: tuple[Any, ...], axis: int) -> bool:
    """Whether an integer takes a dim away."""
    return isinstance([part for part in first if part is not None][axis], int)


def along(shape: tuple[int, ...], axis: int, index: Array) -> tuple[Any, ...]:
    """The index of `torch.gather` and `torch.scatter`: of each place of `index`, with one dim's number replaced."""
    if index.ndim != len(shape):
        raise Unread("an index of another number of dims")
    grids = np.ogrid[tuple(map(slice, index.shape))]
    return tuple(index if place == axis else constant(grid) for place, grid in enumerate(grids))
