"""Plans: what a program applies to what, without the structural primitives in between.

A plan is read from a program and lowered to one again. Lowering inserts the Repeat, Bufferize, Streamify, Promote,
Flatten and Reshape that types ask for, so that a plan survives an edit of any of its steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pipeline.synthesis.lowering import ProgramBuilder, route, tidy, zipped
from pipeline.synthesis.operand_shapes import OperandShapes
from pipeline.synthesis.type_space import TypeSpace, chains
from step_runtime.base.errors import RuleError
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Dim
from step_runtime.base.types import DType, StreamType, STuple, components_of
from step_runtime.primitives import Accum, Map, Merge, Partition, Promote, RepeatRef, Scan
from step_runtime.program.graph import Program, StreamId
from step_runtime.tasks.scope import Scope
from step_runtime.verification.check import infer_types

ValueId = int
"""Values are numbered: first the inputs, then the steps' results in order."""

MOST_SHAPES = 4
"""Shapes at which the operands of a step are tried, the cheapest first."""


@dataclass(frozen=True)
class Step:
    """A function, or a routing, applied to earlier values.

    Attributes:
        kind: The primitive that applies it.
        fns: The function; of a routing the branches (None: unchanged) in the order of bits, then the one that merges.
        sources: Its operands; of a routing the index last.
        shape: The stream shape at which the operands meet, innermost first; empty: whichever is cheapest.
        folded: Of `Accum` and `Scan` the number of inner dims that they fold.
        variant: Without a shape, which of the cheapest ones comes first; with one, which of two equally typed chains of
            structural primitives the operands take.
    """

    kind: type[Map | Accum | Scan | Merge]
    fns: tuple[Fn | None, ...]
    sources: tuple[ValueId, ...]
    shape: tuple[Dim, ...] = ()
    folded: int = 0
    variant: int = 0

    @property
    def fn(self) -> Fn:
        """The function, or the one that merges."""
        last = self.fns[-1]
        if last is None:
            raise ValueError("a step applies a function")
        return last

    @property
    def data(self) -> DType:
        """What the operands hold together, an index aside."""
        first = next((fn for fn in self.fns if fn is not None), self.fn)
        return first.input


@dataclass(frozen=True)
class Plan:
    """Steps in order, and the values that are the outputs."""

    steps: tuple[Step, ...]
    results: tuple[ValueId, ...]
    inputs: int


class NotAPlan(Exception):
    """A program has parts that a plan cannot describe."""


def plan_of(program: Program, scope: Scope) -> Plan:
    """The plan that a program follows, whose types may be wrong.

    Raises:
        NotAPlan: A routing has branches that are more than one function each, or a stream is missing.
    """
    return typed_plan_of(program, scope, whole=False)[0]


def typed_plan_of(program: Program, scope: Scope, *, whole: bool = True) -> tuple[Plan, list[StreamType]]:
    """The plan that a program follows, and the types of its values.

    Raises:
        NotAPlan: As `plan_of`; or, of a `whole` one, a value has no type.
    """
    reader = _Reader(program, scope)
    plan = reader.plan()
    known = [type_ for type_ in reader.value_types if type_ is not None]
    if whole and len(known) < len(reader.value_types):
        raise NotAPlan("a value without a type")
    return plan, known


class _Reader:
    """Reads a plan from a program."""

    def __init__(self, program: Program, scope: Scope) -> None:
        self._program = program
        self._types = infer_types(program, scope)[0]
        self._inputs = len(program.inputs)
        self.value_types: list[StreamType | None] = [self._types[stream] for stream in range(self._inputs)]
        self._steps: list[Step] = []
        self._origins: dict[StreamId, tuple[ValueId, ...]] = {i: (i,) for i in range(self._inputs)}
        self._pieces: dict[StreamId, tuple[int, int, Fn | None]] = {}
        self._partitions: list[tuple[tuple[ValueId, ...], tuple[Dim, ...]]] = []

    def plan(self) -> Plan:
        """The plan."""
        for node in self._program.nodes:
            op = node.op
            if isinstance(op, Partition):
                self._partition(node.inputs, node.outputs)
            elif isinstance(op, Merge):
                self._merge(op, node.inputs, node.outputs[0])
            elif isinstance(op, Map) and any(stream in self._pieces for stream in node.inputs):
                number, bit, fn = self._piece(node.inputs[0])
                if fn is not None:
                    raise NotAPlan("a branch of two functions")
                self._pieces[node.outputs[0]] = number, bit, op.fn
            elif isinstance(op, Map | Accum | Scan):
                shape = self._shape_of(node.inputs[0])
                folded = 0 if isinstance(op, Map) else op.b
                self._add(Step(type(op), (op.fn,), self._all(node.inputs), shape, folded), node.outputs[0])
            else:
                self._structural(op, node.inputs, node.outputs)
        results = [self._all((stream,)) for stream in self._program.results]
        if any(len(result) != 1 for result in results):
            raise NotAPlan("an output of several streams")
        return Plan(tuple(self._steps), tuple(result[0] for result in results), self._inputs)

    def _structural(self, op: object, inputs: Sequence[StreamId], outputs: Sequence[StreamId]) -> None:
        taken = inputs[:1] if isinstance(op, RepeatRef) else inputs
        if any(stream in self._pieces for stream in taken):
            if len(taken) > 1:
                raise NotAPlan("branches of several streams")
            self._pieces |= dict.fromkeys(outputs, self._pieces[taken[0]])
            return
        origins = self._all(taken)
        self._origins |= dict.fromkeys(outputs, origins)

    def _partition(self, inputs: Sequence[StreamId], outputs: Sequence[StreamId]) -> None:
        data, index = self._all(inputs[:1]), self._all(inputs[1:])
        self._partitions.append(((*data, *index), self._shape_of(inputs[0])))
        for bit, stream in enumerate(outputs):
            self._pieces[stream] = len(self._partitions) - 1, bit, None

    def _merge(self, op: Merge, inputs: Sequence[StreamId], output: StreamId) -> None:
        pieces = [self._piece(stream) for stream in inputs[:-1]]
        numbers = {number for number, _, _ in pieces}
        if len(numbers) != 1 or [bit for _, bit, _ in pieces] != list(range(len(pieces))):
            raise NotAPlan("a Merge of other streams than one Partition's")
        sources, shape = self._partitions[numbers.pop()]
        fns = (*(fn for _, _, fn in pieces), op.fn)
        self._add(Step(Merge, fns, sources, shape), output)

    def _piece(self, stream: StreamId) -> tuple[int, int, Fn | None]:
        if stream not in self._pieces:
            raise NotAPlan("a branch that is no piece of a Partition")
        return self._pieces[stream]

    def _add(self, step: Step, output: StreamId) -> None:
        self._steps.append(step)
        self.value_types.append(self._types[output])
        self._origins[output] = (self._inputs + len(self._steps) - 1,)

    def _all(self, streams: Sequence[StreamId]) -> tuple[ValueId, ...]:
        found: list[ValueId] = []
        for stream in streams:
            if stream not in self._origins:
                raise NotAPlan("a piece of a Partition outside its Merge")
            found += self._origins[stream]
        return tuple(found)

    def _shape_of(self, stream: StreamId) -> tuple[Dim, ...]:
        type_ = self._types[stream]
        return () if type_ is None else type_.shape


class PlanLowering:
    """Lowers plans of one task to programs."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._space = TypeSpace(scope)
        self._operands = OperandShapes(self._space)

    def program(self, plan: Plan) -> tuple[Program, Plan]:
        """The program of a plan, without dead nodes, and with Copies; and the plan with all shapes, as they came out.

        Raises:
            RuleError: Structural primitives do not lead to some operand or output.
        """
        builder = ProgramBuilder(self._scope)
        values: list[StreamId] = list(range(plan.inputs))
        resolved = list(plan.steps)
        for place, step in enumerate(self._live(plan)):
            stream, shape = (-1, ()) if step is None else self.step(builder, step, [values[i] for i in step.sources])
            values.append(stream)
            resolved[place] = replace(resolved[place], shape=shape or resolved[place].shape)
        results = tuple(
            self._coerced(builder, values[value], output, 0)
            for value, output in zip(plan.results, self._scope.outputs, strict=True)
        )
        return tidy(builder.program(results)), replace(plan, steps=tuple(resolved))

    def _live(self, plan: Plan) -> list[Step | None]:
        needed = set(plan.results)
        for place in range(len(plan.steps) - 1, -1, -1):
            if plan.inputs + place in needed:
                needed.update(plan.steps[place].sources)
        return [step if plan.inputs + place in needed else None for place, step in enumerate(plan.steps)]

    def step(self, builder: ProgramBuilder, step: Step, streams: list[StreamId]) -> tuple[StreamId, tuple[Dim, ...]]:
        """The stream that a step makes of others, and the shape at which its operands meet.

        Raises:
            RuleError: Structural primitives do not lead to some operand.
        """
        streams = list(streams)
        index = [streams.pop()] if step.kind is Merge else []
        dtypes = _assigned([builder.types[stream] for stream in streams], step.data)
        error = RuleError("coercion", f"no shape at which the operands of {step.fn.label} meet")
        for shape in self._shapes(builder, step, streams, dtypes):
            try:
                parts = [
                    self._coerced(builder, stream, StreamType(dtype, shape), step.variant if step.shape else 0)
                    for stream, dtype in zip(streams, dtypes, strict=True)
                ]
                return _applied(builder, step, parts, index, shape), shape
            except RuleError as wrong:
                error = wrong
        raise error

    def _shapes(
        self, builder: ProgramBuilder, step: Step, streams: Sequence[StreamId], dtypes: Sequence[DType]
    ) -> Iterator[tuple[Dim, ...]]:
        """The step's own shape, then those at which its operands meet most cheaply."""
        if step.shape:
            yield step.shape
        sources = tuple(self._space.intern(builder.types[stream]) for stream in streams)
        parts = tuple(map(self._operands.part, dtypes))
        costs: dict[tuple[Dim, ...], int] = {}
        for paths in self._operands.meetings(sources, parts, split=False, grown=False):
            costs.setdefault(paths[0].target.shape, sum(path.cost for path in paths))
        shapes = sorted(costs, key=lambda shape: costs[shape])[:MOST_SHAPES]
        first = 0 if step.shape else min(step.variant, max(len(shapes) - 1, 0))
        yield from (shape for shape in (*shapes[first:], *shapes[:first]) if shape != step.shape)

    def _coerced(self, builder: ProgramBuilder, stream: StreamId, target: StreamType, variant: int) -> StreamId:
        ways = chains(builder.types[stream], target)
        if not ways:
            raise RuleError("coercion", f"no structural primitives lead from {builder.types[stream]} to {target}")
        for op in ways[min(variant, len(ways) - 1)]:
            stream = builder.add(op, stream)[0]
        return stream


def _assigned(types: Sequence[StreamType], dtype: DType) -> list[DType]:
    """The part of a function's input that each operand holds."""
    need, found = components_of(dtype), list[DType]()
    place = 0
    for type_ in types:
        count = len(type_.dtype.components) if isinstance(type_.dtype, STuple) else 1
        part = need[place : place + count]
        if len(part) < count:
            raise RuleError("coercion", "more operands than the function takes")
        found.append(part[0] if count == 1 else STuple(part))
        place += count
    if place != len(need):
        raise RuleError("coercion", "fewer operands than the function takes")
    return found


def _applied(
    builder: ProgramBuilder, step: Step, parts: Sequence[StreamId], index: Sequence[StreamId], shape: tuple[Dim, ...]
) -> StreamId:
    if step.kind is Merge:
        return route(builder, step.fns[:-1], step.fn, [*parts, *index])
    stream = zipped(builder, parts)
    if step.kind is Map:
        return builder.add(Map(step.fn), stream)[0]
    fold = Accum if step.kind is Accum else Scan
    folded = min(step.folded, len(shape))
    if folded == len(shape):
        stream = builder.add(Promote(len(shape)), stream)[0]
    return builder.add(fold(step.fn, folded), stream)[0]
