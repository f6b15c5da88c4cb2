"""The values of the streams of a right program, and which streams of drafts have the same.

Two streams are the same if they hold the same values of the same types on one input, repetitions aside.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pipeline.lms.embedded.draft import Move
from pipeline.synthesis.lowering import route, zipped
from pipeline.lms.embedded.quotients import Divided
from pipeline.synthesis.coercions import cut
from step_runtime.base.types import DType, StreamType, components_of
from step_runtime.execution.applier import Applier, Data
from step_runtime.execution.invocation import default_dtype
from step_runtime.language.parser import parse
from step_runtime.primitives import Accum, Frame, Map, Merge, Operand, Partition, Primitive, Promote, Rules, Scan
from step_runtime.verification.instance import TaskInstance

_SEED = 1


class Stream(NamedTuple):
    """A stream with its values."""

    type: StreamType
    data: Data


class ValueBackend:
    """Runs primitives on the inputs of one seed; `divided` is how the proposer reads the task."""

    def __init__(self, instance: TaskInstance, divided: Divided) -> None:
        self.instance = instance
        self._divided = divided
        self._rules = Rules(instance.sizes)
        self._frame = Frame(dict(instance.sizes), Applier(instance.dtype))

    def inputs(self) -> list[Stream]:
        """The task's inputs."""
        data = self.instance.sample_inputs(_SEED)
        return [Stream(type_, data[name]) for name, type_ in self.instance.scope.inputs.items()]

    def add(self, op: Primitive, *inputs: Stream) -> tuple[Stream, ...]:
        """The results of a primitive on streams."""
        types = op.infer([stream.type for stream in inputs], self._rules)
        operands = [Operand(*stream) for stream in inputs]
        with default_dtype(self.instance.dtype):
            found = op.run(operands, list(types), self._frame)
        return tuple(Stream(type_, tuple(data)) for type_, data in zip(types, found, strict=True))

    def moved(self, move: Move, sources: Sequence[Stream]) -> Stream:
        """What a move of a draft gives of these sources."""
        fns = [fn and self.instance.fns[fn.label] for fn in move.fns]
        parts = []
        for source, coercion in zip(sources, move.coercions, strict=True):
            now = source
            for op in coercion.ops:
                now = self.add(self._divided.op(op), now)[0]
            parts.append(now)
        if move.routing is not None:
            return route(self, fns, self.instance.fns[move.routing.merge.label], parts, selects=move.routing.selects)
        stream, fn = zipped(self, parts), fns[0]
        assert fn is not None
        if move.fold is None:
            return self.add(Map(fn), stream)[0]
        if move.fold.placeholder:
            stream = self.add(Promote(len(stream.type.shape)), stream)[0]
        return self.add((Scan if move.fold.scan else Accum)(fn, move.fold.b), stream)[0]


class Content(NamedTuple):
    """The values of a stream without repetitions, component by component, and of which type single elements are."""

    elements: tuple[DType, ...]
    values: tuple[Tensor, ...]


def content(stream: Stream) -> Content:
    """What a stream holds, in Buffers or not."""
    found = []
    for part in stream.data:
        values = part.detach().to(torch.float64)
        for dim in range(values.dim()):
            first = values.narrow(dim, 0, 1)
            if values.shape[dim] > 1 and torch.equal(values, first.expand_as(values)):
                values = first
        found.append(values.flatten())
    elements = tuple(cut(part)[0] for part in components_of(stream.type.dtype))
    return Content(elements, tuple(found))


def same(one: Content, other: Content) -> bool:
    """Whether two streams hold the same values of the same types: an index is not the numbers that it consists of."""
    return one.elements == other.elements and all(
        a.shape == b.shape and torch.allclose(a, b, rtol=1e-7, atol=1e-10, equal_nan=True)
        for a, b in zip(one.values, other.values, strict=True)
    )


@dataclass(frozen=True)
class Step:
    """A function that the oracle applies: to which contents, and what it gives."""

    label: str
    sources: tuple[int, ...]
    content: int
    shape: str


class Oracle:
    """A task's right program as steps; `contents` are those of its inputs and of its functions' results."""

    def __init__(self, text: str, backend: ValueBackend) -> None:
        self.contents: list[Content] = []
        self.steps: list[Step] = []
        program, wrong = parse(text, backend.instance.scope)
        if wrong:
            raise ValueError(f"the impl cannot be parsed: {wrong[0].message}")
        streams = backend.inputs()
        parts: list[tuple[int, ...]] = [(self._number(stream, make=True),) for stream in streams]
        """For each stream, the contents that are zipped in it."""
        routed: dict[int, tuple[int, ...]] = {}
        for node in program.nodes:
            made = backend.add(node.op, *(streams[stream] for stream in node.inputs))
            sources = tuple(itertools.chain.from_iterable(parts[stream] for stream in node.inputs))
            if isinstance(node.op, Merge):
                data = routed.get(node.inputs[0], parts[node.inputs[0]])
                sources = (*data, *parts[node.inputs[-1]])
            streams += made
            if isinstance(node.op, Partition):
                routed |= dict.fromkeys(node.outputs, parts[node.inputs[0]])
            if isinstance(node.op, Map) and node.inputs[0] in routed:
                routed[node.outputs[0]] = routed[node.inputs[0]]
            elif isinstance(node.op, Map | Accum | Scan | Merge):
                sources = self._step(node.op, sources, streams[node.outputs[0]], made[0])
            parts += [sources] * len(made)

    def _step(
        self, op: Map | Accum | Scan | Merge, sources: tuple[int, ...], stream: Stream, made: Stream
    ) -> tuple[int]:
        known = len(self.contents)
        number = self._number(made, make=True)
        if number == known:
            self.steps.append(Step(f"{type(op).__name__}({op.fn.label})", sources, number, str(made.type)))
        return (number,)

    def _number(self, stream: Stream, *, make: bool = False) -> int:
        values = content(stream)
        for number, known in enumerate(self.contents):
            if same(values, known):
                return number
        if make:
            self.contents.append(values)
            return len(self.contents) - 1
        return -1

    def number(self, stream: Stream) -> int:
        """Which content a stream has; -1 for none of them."""
        return self._number(stream)
