"""Programs on exact values: primitives that move streams move the numbers, functions are traced and followed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from step_runtime.base.errors import StepError
from step_runtime.base.functions import Fn
from step_runtime.base.types import StreamType, components_of
from step_runtime.execution import invocation
from step_runtime.execution.applier import Applier
from step_runtime.execution.number_formats import element_type
from step_runtime.execution.tracing import Captures
from step_runtime.primitives import Frame, Operand, Primitive
from step_runtime.primitives.arithmetic import Accum, Map, Scan
from step_runtime.primitives.routing import Merge, Partition
from step_runtime.primitives.structural import Flatten, Promote, Reshape
from step_runtime.program.graph import Program
from step_runtime.verification.exact.operators import Operators, at_places, places
from step_runtime.verification.exact.order import choose
from step_runtime.verification.exact.trace import Trace, trace
from step_runtime.verification.exact.value import (
    Unknown,
    Value,
    fixed,
    flags,
    joined,
    same,
    selected,
    shaped,
    spread,
)
from step_runtime.verification.instance import TaskInstance


@dataclass(frozen=True)
class ExactStream:
    """A stream's values, one for each component, of torch shape; its type.

    `guard` are truth values, one for each outermost slice: which of them the stream has. All others are there too, and
    are not looked at.
    """

    parts: tuple[Value, ...]
    type: StreamType
    guard: Value | None = None


class Functions:
    """The traces of a task's functions at one set of sizes."""

    def __init__(self, instance: TaskInstance) -> None:
        self._instance = instance
        self._traces: dict[Fn, Trace] = {}

    def run(
        self, fn: Fn, operators: Operators, element: Sequence[Value], given: Mapping[str, tuple[Value, ...]]
    ) -> tuple[Value, ...]:
        """A function of the state's components, if it has one, and the element's, for all elements at once.

        Raises:
            Unknown: It is not followed.
        """
        if fn not in self._traces:
            self._traces[fn] = self._trace(fn, element)
        weights = [part for parts in given.values() for part in parts]
        return tuple(self._traces[fn].run(operators, [*element, *weights]))

    def initial(self, fn: Fn) -> tuple[Value, ...]:
        """A function's initial state."""
        return tuple(fixed(part) for part in invocation.initial(fn, self._instance.sizes, self._instance.dtype))

    @cached_property
    def reference(self) -> Trace | Unknown:
        """The reference's trace."""
        try:
            return self._traced(lambda _: [part for output in self._instance.reference() for part in output], [])
        except Unknown as error:
            return Unknown(f"in the reference, {error}")

    def _traced(self, code: Callable[[Sequence[Tensor]], Sequence[Tensor]], element: Sequence[Tensor | Value]) -> Trace:
        """The trace of some code on an element, with all inputs and parameters behind it."""
        sampled = self._instance.sampled(0)

        def run(*tensors: Tensor) -> Sequence[Tensor]:
            rest = iter(tensors[len(element) :])
            self._instance.use_inputs({name: tuple(next(rest) for _ in parts) for name, parts in sampled.items()})
            return code(tensors[: len(element)])

        try:
            return trace(run, [*element, *(part for parts in sampled.values() for part in parts)])
        finally:
            self._instance.sample_inputs(0)

    def _trace(self, fn: Fn, element: Sequence[Value]) -> Trace:
        captures = Captures(fn)
        before = captures.state()
        if captures.opaque:
            raise Unknown(f"the function {fn.label}, which may keep state in Python")
        count = len(components_of(fn.output)) if fn.stateful else 0

        def code(own: Sequence[Tensor]) -> Sequence[Tensor]:
            with invocation.default_dtype(self._instance.dtype):
                split = (own[:count], own[count:]) if count else (own,)
                return invocation.apply(fn, split, self._instance.sizes, self._instance.dtype)

        found = self._traced(code, element)
        if not captures.unchanged() or captures.state()[2] != before[2]:
            raise Unknown(f"the function {fn.label}, which modifies captured values")
        return found


class ExactRun:
    """One run of a program on exact values."""

    def __init__(
        self, instance: TaskInstance, functions: Functions, operators: Operators, given: Mapping[str, tuple[Value, ...]]
    ) -> None:
        self._instance = instance
        self._functions = functions
        self._operators = operators
        self._given = given
        self._frame = Frame(dict(instance.sizes), Applier(instance.dtype))

    def run(self, program: Program, types: Sequence[StreamType]) -> list[ExactStream]:
        """The results.

        Raises:
            Unknown: A function or a routing is not followed.
        """
        streams = [ExactStream(self._given[name], types[number]) for number, name in enumerate(program.inputs)]
        for node in program.nodes:
            operands = [streams[number] for number in node.inputs]
            outputs = [types[number] for number in node.outputs]
            match node.op:
                case Map(fn=fn):
                    streams.append(self._map(fn, operands, outputs[0]))
                case Accum(fn=fn, b=b) | Scan(fn=fn, b=b):
                    streams.append(self._fold(fn, b, operands[0], outputs[0], scan=isinstance(node.op, Scan)))
                case Partition():
                    streams += self._partition(operands[0], operands[1], outputs)
                case Merge(fn=fn):
                    streams.append(self._merge(fn, operands[:-1], operands[-1], outputs[0]))
                case _:
                    streams += self._moved(node.op, operands, outputs)
        results = [streams[number] for number in program.results]
        if any(result.guard is not None for result in results):
            raise Unknown("a result whose number of slices depends on data")
        return results

    def _typed(self, fn: Fn, parts: Sequence[Value]) -> list[Value]:
        """Elements in the types that a function takes."""
        kinds = [element_type(element, self._instance.dtype) for element in components_of(fn.input)]
        return [part.but(dtype=kind) for part, kind in zip(parts, kinds, strict=True)]

    def _map(self, fn: Fn, operands: Sequence[ExactStream], output: StreamType) -> ExactStream:
        guard = self._guard(operands)
        dims = len(operands[0].type.shape)
        outer = operands[0].parts[0].shape[:dims]
        count = math.prod(outer)
        rows = [shaped(part, count, *part.shape[dims:]) for operand in operands for part in operand.parts]
        found = self._functions.run(fn, self._operators, self._typed(fn, rows), self._given)
        parts = tuple(shaped(spread(part, count, part.shape), 1, *outer, *part.shape) for part in found)
        return ExactStream(parts, output, guard)

    def _fold(self, fn: Fn, b: int, operand: ExactStream, output: StreamType, *, scan: bool) -> ExactStream:
        dims = len(operand.type.shape)
        outer = operand.parts[0].shape[:dims]
        kept, inner = outer[: dims - b], outer[dims - b :]
        folds, steps = math.prod(kept), math.prod(inner)
        rows = [shaped(part, folds, steps, *part.shape[dims:]) for part in operand.parts]
        state: tuple[Value, ...] = self._functions.initial(fn)
        states = []
        for step in range(steps):
            element = [selected(row, 0, step) for row in rows]
            state = self._functions.run(fn, self._operators, [*state, *self._typed(fn, element)], self._given)
            states.append(state)
        if not states:
            states = [state]
        shape = (*kept, *inner) if scan else kept
        parts = []
        for number, last in enumerate(state):
            if scan:
                column = [spread(each[number], folds, last.shape) for each in states]
                whole = joined(column, 0, torch.stack)  # (folds, steps, *layout)
            else:
                whole = spread(last, folds, last.shape)
            parts.append(shaped(whole, 1, *shape, *last.shape))
        return ExactStream(tuple(parts), output, operand.guard)

    def _guard(self, operands: Sequence[ExactStream]) -> Value | None:
        """The guard of streams that are taken together.

        Raises:
            Unknown: Theirs may differ.
        """
        first = operands[0].guard
        for operand in operands[1:]:
            if (operand.guard is None) != (first is None):
                raise Unknown("a routed stream beside an unrouted stream")
            if first is not None and operand.guard is not None and not bool(same(first.data, operand.guard.data).all()):
                raise Unknown("streams that are routed by different data")
        return first

    def _partition(self, data: ExactStream, index: ExactStream, outputs: Sequence[StreamType]) -> list[ExactStream]:
        if data.guard is not None or index.guard is not None:
            raise Unknown("a routed stream that is routed again")
        dims = len(index.type.shape)
        count = math.prod(index.parts[0].shape[:dims])
        slices = tuple(shaped(part, 1, count, *part.shape[dims:]) for part in data.parts)
        bits = shaped(index.parts[0], 1, count, -1)
        streams = []
        for number, output in enumerate(outputs):
            self._frame.sizes[output.shape[-1].name] = count
            guard = selected(bits, 1, number).but(bits=True)
            streams.append(ExactStream(slices, output, guard))
        return streams

    def _merge(self, fn: Fn, streams: Sequence[ExactStream], index: ExactStream, output: StreamType) -> ExactStream:
        if index.guard is not None:
            raise Unknown("a routed index")
        dims = len(index.type.shape)
        places = index.parts[0].shape[:dims]
        count = math.prod(places)
        bits = shaped(index.parts[0], 1, count, -1)
        rank = len(streams[0].type.shape)
        inner = streams[0].parts[0].shape[1:rank]
        each = math.prod(inner)
        state: tuple[Value, ...] = self._functions.initial(fn)
        for number, stream in enumerate(streams):
            bit = selected(bits, 1, number).but(bits=True)
            self._check_slices(stream, bit, count)
            if stream.guard is not None:
                bit = bit.but(masks=flags(bit.masks, stream.guard.masks))
            rows = [shaped(part, count * each, *part.shape[rank:]) for part in stream.parts]
            taken = bit.parts(
                lambda one: one.reshape(one.shape[0], count, 1).expand(-1, count, each).reshape(one.shape[0], -1)
            )
            new = self._functions.run(fn, self._operators, [*state, *self._typed(fn, rows)], self._given)
            tests = (taken.parts(lambda bit, n=one: bit.reshape(*bit.shape, *(1,) * len(n.shape))) for one in new)  # type: ignore[misc]
            chosen = map(choose, tests, new, state)
            state = tuple(made.but(dtype=one.dtype) for made, one in zip(chosen, new, strict=True))
        shape = (*places, *inner)
        parts = tuple(shaped(spread(part, count * each, part.shape), 1, *shape, *part.shape) for part in state)
        return ExactStream(parts, output)

    def _check_slices(self, stream: ExactStream, bit: Value, count: int) -> None:
        """Checks that a stream has a slice for each bit that is set, whatever the data.

        Raises:
            Unknown: That is not known.
        """
        if stream.guard is not None:
            if stream.guard.shape != bit.shape or not bool(same(stream.guard.data, bit.data).all()):
                raise Unknown("a Merge whose index differs from that of the Partition")
        elif not (stream.parts[0].shape[0] == count and bool((bit.known == 1).all())):
            raise Unknown("a Merge whose streams differ from its set bits in the number of slices")

    def _moved(
        self, op: Primitive, operands: Sequence[ExactStream], outputs: Sequence[StreamType]
    ) -> list[ExactStream]:
        """What a primitive gives that only moves elements: it is run on their places."""
        guard = self._guard_of_move(op, operands)
        sources = [part for operand in operands for part in operand.parts]
        numbers = iter(places(sources))
        placed = [Operand(operand.type, tuple(next(numbers) for _ in operand.parts)) for operand in operands]
        try:
            found = op.run(placed, outputs, self._frame)
        except StepError as error:
            raise Unknown(str(error)) from error
        moved = [tuple(at_places(sources, part) for part in parts) for parts in found]
        return [ExactStream(parts, output, guard) for parts, output in zip(moved, outputs, strict=True)]

    def _guard_of_move(self, op: object, operands: Sequence[ExactStream]) -> Value | None:
        if all(operand.guard is None for operand in operands):
            return None
        rank = operands[0].type.rank
        if (isinstance(op, Promote) and op.b > rank) or (isinstance(op, Flatten | Reshape) and rank in op.L):
            raise Unknown(f"a {type(op).__name__} of a dim that depends on data")
        return self._guard(operands)
