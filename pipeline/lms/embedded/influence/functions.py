"""What a task's functions do to sources: their text is read once, and then composed with their operands' sources.

A function is read on elements that stand for themselves. Constants among its operands (positions, counts, the initial
state) may change what it depends on, so it is read once for each set of constants that it meets.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.lms.embedded.formulas.residues import LOG, Residues, constants, either, packed
from pipeline.lms.embedded.formulas.tape import Formulas, Nodes, Tape
from pipeline.lms.embedded.influence.arrays import Array, Sources, Unread, Values, as_array, nodes_of
from pipeline.lms.embedded.influence.reader import ArrayReader
from step_runtime.base.shapes import Sizes, evaluate
from step_runtime.base.types import DType, components_of, layout
from step_runtime.tasks.task import FnSpec, Task

_WORD = 63
"""More elements than this are numbered by integers of Python."""
_MOST_FORMULAS = 1_000_000
"""With more formulas for all elements of a stream, none is computed."""
_BLOCKS = 3
"""As many operations on formulas take as long as following a function once."""
_LOGS = 2
"""They take so many times as long with logarithms."""
_MOST_GROUPS = 40
"""With more sets of constants among the elements of one stream, a function is not read."""


class Flat(NamedTuple):
    """Elements of streams in a row: for each element of a stream, those of its components one after the other.

    Attributes:
        sources: What they depend on, of shape (elements of the stream, elements of a component).
        values: Known constants, else NaN; of the same shape.
        formulas: The residues of their formulas, of the same shape, if they are known.
    """

    sources: Sources
    values: Values
    formulas: Residues | None = None


@dataclass(frozen=True)
class Reading:
    """What a function's result depends on.

    Attributes:
        taken: The operands' elements that each element of the result depends on, padded with the number of operands.
        values: The constants among the elements of the result, else NaN.
        formulas: Those of the result, of the operands.
    """

    taken: NDArray[np.int64]
    values: Values
    formulas: Formulas | None = None

    def work(self, given: Residues | None) -> int:
        """How many times as long its formulas take, of operands with these, as following it otherwise."""
        tape = self.formulas and self.formulas.tape
        if tape is None or given is None:
            return 0
        return tape.work * (_LOGS if tape.logs or (given & LOG).any() else 1) // _BLOCKS

    def applied(self, operands: Flat, world: int) -> Flat:
        """The result for many elements of a stream."""
        count = len(operands.sources)
        padded = np.zeros((count, operands.sources.shape[1] + 1), np.uint64)
        padded[:, :-1] = operands.sources
        sources = np.bitwise_or.reduce(padded[:, self.taken], axis=2)
        formulas = self.computed(operands.formulas, world)
        return Flat(sources, np.broadcast_to(self.values, sources.shape), formulas)

    def computed(self, given: Residues | None, world: int) -> Residues | None:
        """The residues of the result's formulas by those of the operands."""
        if given is None or self.formulas is None or self.formulas.tape is None:
            return None
        if self.formulas.tape.count * len(given) > _MOST_FORMULAS:
            return None
        one, other = self.formulas.tape.evaluated(given.T, world=world)
        nodes = self.formulas.nodes
        return packed(one[nodes], other[nodes]).T


def shapes_of(dtype: DType, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
    """The layout of each component at these sizes."""
    return tuple(tuple(evaluate(dim, sizes) for dim in layout(part)) for part in components_of(dtype))


def formats_of(dtype: DType) -> tuple[str, ...]:
    """The name of each component's format in torch."""
    return tuple(part.format.torch for part in components_of(dtype))


class Work:
    """What following functions takes.

    Attributes:
        followed: How many times a function is followed, each for a set of constants.
        readings: The readings that this takes, by their identities.
    """

    def __init__(self) -> None:
        self.followed = 0
        self.readings: set[int] = set()

    def follow(self, reading: Reading, given: Residues | None) -> None:
        """Following a function by a reading of it, where operands have formulas or not."""
        self.followed += 1 + reading.work(given)
        self.readings.add(id(reading))


class Functions:
    """The functions of one task at one set of sizes; readings are kept."""

    def __init__(self, task: Task, reader: ArrayReader, helpers: Mapping[str, Any], sizes: Sizes) -> None:
        self._reader = reader
        self._helpers = helpers
        self._specs: dict[str, FnSpec] = {spec.func_name: spec for spec in task.fns}
        self.inputs: dict[str, tuple[tuple[int, ...], ...]] = {}
        self.outputs: dict[str, tuple[tuple[int, ...], ...]] = {}
        self._formats: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._rounds = task.names_formats
        for spec, (given, result) in zip(task.fns, task.fn_types, strict=True):
            self.inputs[spec.func_name] = shapes_of(given, sizes)
            self.outputs[spec.func_name] = shapes_of(result, sizes)
            self._formats[spec.func_name] = formats_of(given), formats_of(result)
        self.world = 0
        self._known: dict[tuple[str, bytes | None], Reading | None] = {}
        self._steady: dict[str, Reading | None] = {}

    def in_world(self, world: int) -> Functions:
        """The same functions in another world, with the same readings."""
        other = copy.copy(self)
        other.world = world
        return other

    def unread(self) -> int:
        """The number of functions that are not understood."""
        count = 0
        for name, spec in self._specs.items():
            given = (*self.inputs[name], *(self.outputs[name] if spec.init is not None else ()))
            try:
                self._reading(name, None, sum(map(prod, given)))
            except Unread:
                count += 1
        return count

    def mapped(self, name: str, operands: Flat, work: Work | None = None) -> Flat:
        """A function on each element; of its state, too, if it has one. What that takes is added to `work`.

        Raises:
            Unread: The function could not be read.
        """
        work = work or Work()
        unknown = np.isnan(operands.values)
        if unknown.all():
            reading = self._reading(name, None, operands.values.shape[1])
            work.follow(reading, operands.formulas)
            return reading.applied(operands, self.world)
        groups: dict[bytes, list[int]] = {}
        for row, values in enumerate(operands.values):
            groups.setdefault(values.tobytes(), []).append(row)
        if len(groups) > _MOST_GROUPS:
            raise Unread("too many sets of constants")
        width = sum(map(prod, self.outputs[name]))
        shape = (len(unknown), width)
        result = Flat(np.zeros(shape, np.uint64), np.zeros(shape))
        formulas: Residues | None = np.zeros(shape, np.uint64)
        for rows in groups.values():
            own = None if operands.formulas is None else operands.formulas[rows]
            part = Flat(operands.sources[rows], operands.values[rows], own)
            reading = self._reading(name, part.values[0], part.values.shape[1])
            work.follow(reading, own)
            given = reading.applied(part, self.world)
            result.sources[rows], result.values[rows] = given.sources, given.values
            if formulas is None or given.formulas is None:
                formulas = None
            else:
                formulas[rows] = given.formulas
        return result._replace(formulas=formulas)

    def folded(self, name: str, operands: Flat, steps: int, work: Work, *, scan: bool) -> Flat:
        """A function with state over `steps` elements at a time, the innermost dim; `work` as in `mapped`.

        Raises:
            Unread: The function could not be read.
        """
        start = self._initial(name)
        rows = len(operands.sources) // steps
        sources = operands.sources.reshape(rows, steps, -1)
        values = operands.values.reshape(rows, steps, -1)
        state = Flat(np.zeros((rows, len(start)), np.uint64), np.broadcast_to(start, (rows, len(start))))
        formulas = None if operands.formulas is None else operands.formulas.reshape(rows, steps, -1)
        computed = self._folded_formulas(name, formulas, values, work, scan=scan)
        if formulas is not None:
            state = state._replace(formulas=constants(state.values))
        steady = self._steady_reading(name) if np.isnan(values).all() else None
        if steady is not None:
            own = steady.applied(Flat(operands.sources, operands.values), self.world).sources.reshape(rows, steps, -1)
            every = np.bitwise_or.accumulate(own, axis=1) if scan else np.bitwise_or.reduce(own, axis=1)
            found = np.ascontiguousarray(every.reshape(-1, len(start)))
            return Flat(found, np.full(found.shape, np.nan), computed)
        passed = []
        for step in range(steps):
            here = Flat(
                np.concatenate((sources[:, step], state.sources), axis=1),
                np.concatenate((values[:, step], state.values), axis=1),
                _beside(None if formulas is None else formulas[:, step], state.formulas),
            )
            state = self.mapped(name, here, work)
            passed.append(state)
        if not scan:
            return state
        after = np.stack([one.sources for one in passed], axis=1).reshape(rows * steps, -1)
        constants_after = np.stack([one.values for one in passed], axis=1).reshape(rows * steps, -1)
        residues = [one.formulas for one in passed if one.formulas is not None]
        known = np.stack(residues, axis=1).reshape(rows * steps, -1) if len(residues) == steps else None
        return Flat(after, constants_after, known)

    def gathered(self, name: str, pieces: Sequence[Any], chosen: Residues) -> Residues | None:
        """The formulas of a fold over pieces of shape (rows, elements), each if `chosen`, of shape (rows, pieces)."""
        start = self._initial(name)
        width = pieces[0].shape[1]
        first = self._reading(name, np.concatenate((np.full(width, np.nan), start)), width + len(start))
        later = self._reading(name, None, width + len(start))
        state = constants(np.broadcast_to(start, (len(chosen), len(start))))
        for place, piece in enumerate(pieces):
            reading = later if place else first
            after = reading.computed(np.concatenate((piece, state), axis=1), self.world)
            if after is None:
                return None
            state = either(chosen[:, place, None], after, state)
        return state

    def _folded_formulas(
        self, name: str, given: Residues | None, values: Values, work: Work, *, scan: bool
    ) -> Residues | None:
        """The formulas of a fold over unknown elements, of shape (rows, steps, elements)."""
        if given is None or not np.isnan(values).all() or self._steady_reading(name) is None:
            return None
        start = self._initial(name)
        reading = self._reading(
            name, np.concatenate((np.full(given.shape[2], np.nan), start)), given.shape[2] + len(start)
        )
        later = self._reading(name, None, given.shape[2] + len(start))
        state: Residues | None = constants(np.broadcast_to(start, (len(given), len(start))))
        passed = []
        for step in range(given.shape[1]):
            operands = _beside(given[:, step], state)
            work.follow(reading, operands)
            state = reading.computed(operands, self.world)
            if state is None:
                return None
            passed.append(state)
            reading = later
        return np.stack(passed, axis=1).reshape(-1, len(start)) if scan else state

    def steady(self, name: str) -> bool:
        """Whether folding takes no loop."""
        return self._steady_reading(name) is not None

    def exchanges(self, name: str, one: int, other: int) -> bool:
        """Whether a result depends on the same elements if two operands change places; False if it is unread."""
        shapes = self.inputs[name]
        state = self.outputs[name] if self._specs[name].init is not None else ()
        ends = np.cumsum([prod(shape) for shape in (*shapes, *state)])
        try:
            reading = self._reading(name, None, int(ends[-1]))
        except Unread:
            return False
        turned = np.arange(ends[-1] + 1)
        first, second = (slice(ends[place] - prod(shapes[place]), ends[place]) for place in (one, other))
        turned[first], turned[second] = turned[second].copy(), turned[first].copy()
        return bool((np.sort(turned[reading.taken], axis=1) == np.sort(reading.taken, axis=1)).all())

    def _initial(self, name: str) -> Values:
        """The initial state, element by element."""
        init = self._specs[name].init or ()
        shapes = self.outputs[name]
        if len(init) != len(shapes):
            raise Unread("an initial state of another number of components")
        return np.concatenate([np.full(prod(shape), float(one)) for one, shape in zip(init, shapes, strict=True)])

    def _steady_reading(self, name: str) -> Reading | None:
        """What each element of a state gains in each step, if that is the same in all and builds on its own state."""
        if name not in self._steady:
            try:
                self._steady[name] = self._find_steady(name)
            except Unread:
                self._steady[name] = None
        return self._steady[name]

    def _find_steady(self, name: str) -> Reading | None:
        start = self._initial(name)
        given = sum(map(prod, self.inputs[name]))
        first = self._reading(name, np.concatenate((np.full(given, np.nan), start)), given + len(start))
        later = self._reading(name, None, given + len(start))
        if not (np.isnan(first.values).all() and np.isnan(later.values).all()):
            return None
        taken = [set(row.tolist()) - {given + len(start)} for row in later.taken]
        own = [{one for one in row if one < given} for row in taken]
        states = [{one - given for one in row if one >= given} for row in taken]
        for place, row in enumerate(first.taken):
            if {one for one in row.tolist() if one < given} != own[place] or place not in states[place]:
                return None
            if any(not own[other] <= own[place] or not states[other] <= states[place] for other in states[place]):
                return None
        return _reading_of(own, later.values, given)

    def _reading(self, name: str, values: Values | None, width: int) -> Reading:
        """How a function depends on operands, with these constants among them."""
        key = (name, None if values is None else values.tobytes())
        if key not in self._known:
            self._known[key] = None
            self._known[key] = self._read(name, np.full(width, np.nan) if values is None else values)
        known = self._known[key]
        if known is None:
            raise Unread("a function that was not read before")
        return known

    def _read(self, name: str, values: Values) -> Reading:
        shapes = (*self.inputs[name], *(self.outputs[name] if self._specs[name].init is not None else ()))
        constants_ = ~np.isnan(values)
        if len(values) <= _WORD:
            bits: Sources = np.left_shift(np.uint64(1), np.arange(len(values), dtype=np.uint64))
        else:
            bits = np.array([1 << place for place in range(len(values))], dtype=object)
        bits = np.where(constants_, np.zeros((), np.uint64), bits)
        tape = Tape(len(values), rounds=self._rounds)
        nodes = np.arange(len(values))
        if constants_.any():
            nodes = np.where(constants_, tape.constants(np.where(constants_, values, 0.0)), nodes)
        parts, place = [], 0
        for shape, kind in zip(shapes, [kind for kinds in self._formats[name] for kind in kinds], strict=False):
            end = place + prod(shape)
            tape.formats.given(nodes[place:end], kind)
            own: list[Any] = [each[place:end].reshape(shape) for each in (bits, values, nodes)]
            parts.append(Array(own[0], own[1], kind == "bool", formulas=Formulas(tape, own[2])))
            place = end
        count = len(self.inputs[name])
        env = {**self._helpers, "input": parts[:count], "state": parts[count:]}
        self._reader.tape = tape
        results = self._reader.run(self._specs[name].apply, env)
        wanted = self.outputs[name]
        if not isinstance(results, list | tuple) or len(results) != len(wanted):
            raise Unread("another number of results than declared")
        arrays = [as_array(result) for result in results]
        if [array.shape for array in arrays] != list(wanted):
            raise Unread("a result of another layout than declared")
        masks = [int(mask) for array in arrays for mask in array.sources.reshape(-1)]
        found = np.concatenate([array.values.reshape(-1) for array in arrays])
        taken = [{bit for bit in range(len(values)) if mask >> bit & 1} for mask in masks]
        given = [self._returned(array, kind, tape) for array, kind in zip(arrays, self._formats[name][1], strict=True)]
        known = [one.reshape(-1) for one in given if one is not None]
        result = Formulas(tape, np.concatenate(known)) if len(known) == len(given) else None
        return _reading_of(taken, found, len(values), result)

    def _returned(self, array: Array, kind: str, tape: Tape) -> Nodes | None:
        """The formulas of a result, which is converted to its declared format."""
        nodes = nodes_of(array, tape)
        return tape.converted(kind, nodes) if nodes is not None and self._rounds else nodes


def _beside(one: Residues | None, other: Residues | None) -> Residues | None:
    return None if one is None or other is None else np.concatenate((one, other), axis=1)


def _reading_of(taken: list[set[int]], values: Values, width: int, formulas: Formulas | None = None) -> Reading:
    longest = max(1, *map(len, taken))
    padded = [sorted(row) + [width] * (longest - len(row)) for row in taken]
    return Reading(np.array(padded, np.int64), values, formulas)
