"""Plans: what a program applies to what, without the structural primitives in between.

A plan is read from a program. `transplants` carries it out in another task, where types ask for other structure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Dim
from step_runtime.base.types import StreamType
from step_runtime.primitives import Accum, Map, Merge, Partition, RepeatRef, Scan
from step_runtime.program.graph import Program, StreamId
from step_runtime.tasks.scope import Scope
from step_runtime.verification.check import infer_types

ValueId = int
"""Values are numbered: first the inputs, then the steps' results in order."""


@dataclass(frozen=True)
class Step:
    """A function, or a routing, applied to earlier values.

    Attributes:
        kind: The primitive that applies it.
        fns: The function; of a routing the branches (None: unchanged) in the order of bits, then the one that merges.
        sources: Its operands; of a routing the index last.
        shape: The stream shape at which the operands meet, innermost first; empty: whichever is cheapest.
        folded: Of `Accum` and `Scan` the number of inner dims that they fold.
    """

    kind: type[Map | Accum | Scan | Merge]
    fns: tuple[Fn | None, ...]
    sources: tuple[ValueId, ...]
    shape: tuple[Dim, ...] = ()
    folded: int = 0

    @property
    def fn(self) -> Fn:
        """The function, or the one that merges."""
        last = self.fns[-1]
        if last is None:
            raise ValueError("a step applies a function")
        return last


@dataclass(frozen=True)
class Plan:
    """Steps in order, and the values that are the outputs."""

    steps: tuple[Step, ...]
    results: tuple[ValueId, ...]
    inputs: int


class NotAPlan(Exception):
    """A program has parts that a plan cannot describe."""


def plan_of(program: Program, scope: Scope) -> tuple[Plan, list[StreamType | None]]:
    """The plan that a program follows, and the types of its values; those may be wrong.

    Raises:
        NotAPlan: A routing has branches that are more than one function each, or a stream is missing.
    """
    reader = _Reader(program, scope)
    return reader.plan(), reader.value_types


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
