"""Where the outputs of a task depend on its inputs: the reference, and programs under construction.

Of each element of each output it is known from which positions along each dim of each input it may get anything. A
program that is right has the same positions as the reference nearly always; one that folds, repeats or scans along a
wrong dim has not. What could not be read agrees with everything.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.lms.embedded.formulas.needs import Needs
from pipeline.lms.embedded.formulas.residues import Residues
from pipeline.lms.embedded.formulas.tape import Tape
from pipeline.lms.embedded.influence.agreement import aligned, alike
from pipeline.lms.embedded.influence.arrays import Array, Unread, as_array, constant, unknown
from pipeline.lms.embedded.influence.functions import Functions, shapes_of
from pipeline.lms.embedded.influence.reader import ArrayReader
from pipeline.lms.embedded.influence.reference_formulas import (
    ReferenceFormulas,
    kind_of,
    values_of,
    with_residues,
)
from pipeline.lms.embedded.influence.streams import Stream, Streams
from pipeline.lms.embedded.types.coercions import cut
from step_runtime.base.errors import RuleError
from step_runtime.base.shapes import Dim, Sizes, evaluate
from step_runtime.base.types import Multihot, StreamType, components_of, layout
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task

_BITS = 64
_SMALL = 4
"""The task is read at sizes of at most this, which tell positions apart as well as larger ones, if its dims exist there
and it is understood."""
_MOST_KEPT = 2_000_000
"""The number of elements from which on a sample begins with no streams but the inputs."""
_MOST_SETS = 1500
"""With more distinct sets of positions in the outputs, streams are not compared with them."""


class TaskInfluence:
    """The influence of the inputs of one task on its outputs; made on first access, and shared by its samples.

    `wholes` are the sizes that others give, by their names.

    Attributes:
        streams: The streams of the task's programs.
        inputs: The numbers of the inputs among them.
        outputs: For each component of each output the sets of its elements, or None where they could not be read.
    """

    def __init__(self, task: Task, wholes: Mapping[str, Dim] | None = None) -> None:
        sets = [static_scope(task, index).sizes for index in range(len(task.size_sets()))]
        declared = min(sets, key=lambda one: _positions(task, one))
        small = _smaller(task, declared, wholes or {})
        self._output_types = task.output_types
        unread = self._read(task, small)
        if unread and small != declared and self._read(task, declared) >= unread:
            self._read(task, small)
        self._largest = self._find_largest()

    def _read(self, task: Task, sizes: Sizes) -> int:
        """Reads the task at these sizes; the number of functions and of outputs' components that are not understood."""
        places = _Places(task, sizes)
        data = {spec.name: unknown(np.zeros(_shape(type_, sizes), np.uint64))
                for spec, type_ in zip(task.parameters, task.parameter_types, strict=True)}  # fmt: skip
        data |= places.inputs
        reader = ArrayReader(data, sizes)
        types = (*task.input_types, *task.parameter_types)
        given = zip((*task.inputs, *task.parameters), types, strict=True)
        kinds = reader.kinds = {spec.name: kind_of(spec, type_) for spec, type_ in given}
        env: dict[str, Any] = {}
        with suppress(Unread):
            reader.run(task.global_ or "", env)
        self._functions = Functions(task, reader, dict(env), sizes)
        self._sizes = sizes
        self._marks = places.marks
        self._drawn = [
            (spec.name, type_, places.inputs[spec.name], kinds[spec.name])
            for spec, type_ in zip(task.inputs, task.input_types, strict=True)
        ]
        reader.met.clear()
        tape = reader.tape = Tape(0, rounds=task.names_formats)
        read = [
            tuple(
                _output(reader, code, env, wanted)
                for code, wanted in zip(spec.data_transform, _component_shapes(type_, sizes), strict=True)
            )
            for spec, type_ in zip(task.outputs, task.output_types, strict=True)
        ]
        self.outputs = [
            tuple(None if one is None else np.ascontiguousarray(one.sources) for one in arrays) for arrays in read
        ]
        self._formulas = ReferenceFormulas(tape, read, self._given(0))
        self._passed = {b""}
        for arrays in reader.met.rounds():
            # A loop's rounds together pass what a stream holds at once.
            self._passed.update(_distinct(array.sources) for array in arrays)
            self._passed.add(_distinct(np.concatenate([array.sources.reshape(-1) for array in arrays])))
        reader.met.clear()
        self._start()
        unread = sum(part is None for output in self.outputs for part in output)
        self._understood = not unread
        return self._functions.unread() + unread

    def _start(self) -> None:
        """Begins with the inputs as the only streams."""
        self._worlds: dict[int, tuple[Streams, tuple[int, ...]]] = {}
        self.streams, self.inputs = self.in_world(0)
        self._passes: dict[int, float] = {}
        self._computed: dict[int, float | None] = {}
        self._values: dict[int, Residues] = {}
        self._fits: dict[int, float] = {}
        self._alignments: dict[tuple[int, StreamType], float] = {}

    @cached_property
    def mixed(self) -> frozenset[Dim]:
        """The dims along which single elements of the outputs get something from several positions of an input."""
        parts = [part.reshape(-1) for output in self.outputs for part in output if part is not None]
        sets = np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.uint64)
        return frozenset(dim for dim, bits in self._marks if (np.bitwise_count(sets & np.uint64(bits)) > 1).any())

    @cached_property
    def paired(self) -> frozenset[Dim]:
        """The dims along which the reference brings elements at two positions together that are not neighbours."""
        parts = [part.reshape(-1) for output in self.outputs for part in output if part is not None]
        sets = np.unique(np.concatenate([*parts, *(np.frombuffer(passed, np.uint64) for passed in self._passed)]))
        together: dict[Dim, NDArray[np.uint64]] = {}
        for dim, bits in self._marks:
            lowest = np.uint64((bits & -bits).bit_length() - 1)
            places = (sets & np.uint64(bits)) >> lowest
            together[dim] = together[dim] | places if dim in together else places
        return frozenset(dim for dim, places in together.items() if _apart(places).any())

    def for_sample(self) -> TaskInfluence:
        """This; or what was read, without the streams, where these have become many."""
        if self.streams.elements < _MOST_KEPT:
            return self
        fresh = copy.copy(self)
        fresh._start()
        return fresh

    def exchanges(self, name: str, one: int, other: int) -> bool:
        """As `Functions.exchanges`."""
        return self._functions.exchanges(name, one, other)

    def agreement(self, results: Sequence[int]) -> float:
        """How much of what the outputs' elements and those of these streams depend on is the same: from 0 to 1."""
        shares = [share for place, number in enumerate(results) for share in self._shares(number, place)]
        return sum(shares) / len(shares) if shares else 1.0

    def reaches(self, number: int, output: int) -> bool:
        """Whether a stream is known to depend on just what an output depends on, element by element."""
        shares = self._shares(number, output)
        return bool(shares) and min(shares) == 1.0

    def independent(self, number: int) -> bool:
        """Whether no element of a stream gets anything from an input, where it is known."""
        stream = self.streams.stream(number)
        return stream is not None and not any(part.sources.any() for part in stream.parts)

    def passes(self, number: int) -> float:
        """The share of a stream's components that the reference passes: 1 if these, or an output, are not known.

        It computes values on the way that depend on just what the elements depend on, in whatever order.
        """
        known = self._passes.get(number)
        if known is None:
            stream = self.streams.stream(number)
            parts = stream.parts if stream is not None and self._understood else ()
            passed = sum(_distinct(part.sources) in self._passed for part in parts)
            known = self._passes[number] = passed / len(parts) if parts else 1.0
        return known

    @property
    def needs(self) -> Needs | None:
        """The values that the reference computes on its way, if the formulas of all outputs are known."""
        return self._formulas.needs

    def computes(self, number: int) -> float | None:
        """The share of a stream's values that the reference computes on its way; None if some are not known."""
        if number not in self._computed:
            self._computed[number] = self._formulas.share(self.streams.stream(number), self.values(number))
        return self._computed[number]

    def values(self, number: int) -> Residues:
        """The first residues of a stream's elements, as `reference_formulas.values_of`."""
        known = self._values.get(number)
        return self._values.setdefault(number, values_of(self.streams.stream(number))) if known is None else known

    def in_world(self, world: int) -> tuple[Streams, tuple[int, ...]]:
        """The streams where symbols have other residues, and the numbers of the inputs among them."""
        known = self._worlds.get(world)
        if known is None:
            streams = Streams(self._functions.in_world(world), self._sizes)
            known = self._worlds[world] = streams, tuple(map(streams.number, self._given(world)))
        return known

    def _given(self, world: int) -> list[Stream]:
        """The inputs in one of the worlds."""
        return [
            _stream(type_, with_residues(name, array, kind, world), self._sizes)
            for name, type_, array, kind in self._drawn
        ]

    @property
    def compares(self) -> bool:
        """As `ReferenceFormulas.compares`."""
        return self._formulas.compares

    @property
    def ordered(self) -> bool:
        """As `ReferenceFormulas.ordered`."""
        return self._formulas.ordered

    def equals(self, number: int, output: int, world: int = 0) -> bool:
        """Whether the elements of a stream have the formulas of an output's, in one of the worlds."""
        return self._formulas.equal(self.in_world(world)[0].stream(number), output, world)

    def _shares(self, number: int, output: int) -> list[float]:
        """The agreement of each component that is known."""
        stream = self.streams.stream(number)
        if stream is None:
            return []
        pairs = zip(stream.parts, self.outputs[output], strict=True)
        return [alike(part.sources.reshape(-1), wanted.reshape(-1)) for part, wanted in pairs if wanted is not None]

    def fit(self, number: int) -> float:
        """How much of what its elements depend on single elements of the outputs depend on, too: from 0 to 1."""
        known = self._fits.get(number)
        if known is None:
            known = self._fits[number] = self._find_fit(number)
        return known

    def _find_fit(self, number: int) -> float:
        stream = self.streams.stream(number)
        if stream is None or self._largest is None:
            return 1.0
        fits = []
        for part in stream.parts:
            sets, counts = np.unique(part.sources, return_counts=True)
            inside = np.bitwise_count(sets[:, None] & self._largest).max(axis=1)
            shares = inside / np.maximum(np.bitwise_count(sets), 1)
            fits.append(float((np.where(sets == 0, 1.0, shares) * counts).sum() / counts.sum()))
        return min(fits)

    def alignment(self, number: int, type_: StreamType) -> float:
        """As `fit`, of each element and those of one output at its own positions: from 0 to 1.

        It is 1 where dims are split or merged on the way. Dims that the output lacks are taken to be folded.
        """
        key = (number, type_)
        known = self._alignments.get(key)
        if known is None:
            known = self._alignments[key] = self._find_alignment(number, type_)
        return known

    def _find_alignment(self, number: int, type_: StreamType) -> float:
        stream = self.streams.stream(number)
        if stream is None or self._largest is None:
            return 1.0
        best = 0.0
        for wanted_type, output in zip(self._output_types, self.outputs, strict=True):
            for wanted_dims, wanted in zip(_dims(wanted_type), output, strict=True):
                pairs = zip(_dims(type_), stream.parts, strict=True)
                shares = [aligned(part.sources, dims, wanted, wanted_dims) for dims, part in pairs]
                best = max(best, min(shares))
        return best

    def _find_largest(self) -> NDArray[np.uint64] | None:
        """The sets of the outputs that no other one contains; None if some could not be read."""
        parts = [part for output in self.outputs for part in output]
        known = [part.reshape(-1) for part in parts if part is not None]
        if len(known) < len(parts) or not known:
            return None
        sets: NDArray[np.uint64] = np.unique(np.concatenate(known))
        if len(sets) > _MOST_SETS:
            return None
        within = ((sets[:, None] & ~sets[None]) == 0).sum(axis=1)
        largest: NDArray[np.uint64] = sets[within == 1]
        return largest


class _Places:
    """Numbers the positions along the dims of the inputs; those of a Multihot itself are one."""

    def __init__(self, task: Task, sizes: Sizes) -> None:
        self.inputs: dict[str, Array] = {}
        self.marks: list[tuple[Dim, int]] = []
        """The dims of the inputs, each with the bits of its positions."""
        moving = [
            (spec.name, _shape(type_, sizes), _counted(type_))
            for spec, type_ in zip(task.inputs, task.input_types, strict=True)
            if spec.data_gen != "torch.ones"
        ]
        for spec, type_ in zip(task.inputs, task.input_types, strict=True):
            if spec.data_gen == "torch.ones":
                self.inputs[spec.name] = constant(np.ones(_shape(type_, sizes)))
        longest = max((size for _, shape, _ in moving for size in shape), default=1)
        while longest > 1 and sum(_width(shape, count, longest) for _, shape, count in moving) > _BITS:
            longest -= 1
        first = 0
        dims = {spec.name: _dims(type_)[0] for spec, type_ in zip(task.inputs, task.input_types, strict=True)}
        for name, shape, count in moving:
            sources = np.zeros(shape, np.uint64)
            for axis, size in enumerate(shape[:count]):
                # Positions from the last number on are not distinguished.
                bits = first + np.minimum(np.arange(size), longest - 1)
                marks = np.left_shift(np.uint64(1), np.minimum(bits, _BITS - 1).astype(np.uint64))
                sources |= marks.reshape(-1, *[1] * (len(shape) - axis - 1))
                self.marks.append((dims[name][axis], int(np.bitwise_or.reduce(marks, initial=0))))
                first += min(size, longest)
            if not count:
                sources |= np.uint64(1) << np.uint64(min(first, _BITS - 1))
                first += 1
            self.inputs[name] = unknown(sources)


def _smaller(task: Task, declared: Sizes, wholes: Mapping[str, Dim]) -> Sizes:
    """The smallest sizes, each the declared one up to a bound, at which all dims of the task exist."""
    fns = (part for given in task.fn_types for dtype in given for part in components_of(dtype))
    types = (*task.input_types, *task.parameter_types, *task.output_types)
    dims = {dim for part in fns for dim in layout(part)}.union(*(own for type_ in types for own in _dims(type_)))
    for bound in range(_SMALL, max(declared.values(), default=_SMALL)):
        sizes = {name: min(size, bound) for name, size in declared.items()}
        with suppress(RuleError):
            sizes |= {name: evaluate(whole, sizes) for name, whole in wholes.items()}
            for dim in dims:
                evaluate(dim, sizes)
            return sizes
    return declared


def _width(shape: tuple[int, ...], count: int, longest: int) -> int:
    return sum(min(size, longest) for size in shape[:count]) or 1


def _positions(task: Task, sizes: Sizes) -> int:
    return sum(_width(_shape(type_, sizes), _counted(type_), 1 << 30) for type_ in task.input_types)


def _counted(type_: StreamType) -> int:
    """The number of dims, in PyTorch's order, whose positions count."""
    return len(type_.shape) + len(cut(type_.dtype)[1])


def _component_shapes(type_: StreamType, sizes: Sizes) -> list[tuple[int, ...]]:
    outer = tuple(evaluate(dim, sizes) for dim in reversed(type_.shape))
    return [(*outer, *layout) for layout in shapes_of(type_.dtype, sizes)]


def _shape(type_: StreamType, sizes: Sizes) -> tuple[int, ...]:
    (shape,) = _component_shapes(type_, sizes)
    return shape


def _stream(type_: StreamType, array: Array, sizes: Sizes) -> Stream:
    return Stream((array,), (array.ndim - len(type_.shape),), int(isinstance(cut(type_.dtype)[0], Multihot)))


def _output(reader: ArrayReader, code: str, env: dict[str, Any], shape: tuple[int, ...]) -> Array | None:
    """An output; None if its code could not be read."""
    try:
        array = as_array(reader.run(code, env))
    except Unread:
        return None
    return array if array.shape == shape else None


def _distinct(sources: NDArray[np.uint64]) -> bytes:
    """The distinct sets of some elements, without the empty one."""
    sets = np.unique(sources)
    return bytes(sets[sets != 0].astype(np.uint64).tobytes())


def _apart(places: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which sets are of two positions that are not neighbours."""
    neighbours = places & (places << np.uint64(1))
    apart: NDArray[np.bool_] = (np.bitwise_count(places) == 2) & (neighbours == 0)
    return apart


def _dims(type_: StreamType) -> list[tuple[Dim, ...]]:
    """The dims of each component in PyTorch's order."""
    return [(*reversed(type_.shape), *layout(part)) for part in components_of(type_.dtype)]
