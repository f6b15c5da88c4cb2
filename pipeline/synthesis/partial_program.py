"""The beginning of a program as text, read into the values that its next line can use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from pipeline.synthesis.lowering import ProgramBuilder
from pipeline.synthesis.rules import without_placeholder
from pipeline.synthesis.type_space import TypeId, TypeSpace
from step_runtime.base.errors import RuleError
from step_runtime.base.functions import Fn
from step_runtime.language.parser import parse
from step_runtime.primitives import Accum, Copy, Flatten, Map, Merge, Partition, Primitive, Rules, Scan
from step_runtime.program.graph import Node, Program, StreamId
from step_runtime.program.printer import print_node
from step_runtime.tasks.scope import Scope


@dataclass(frozen=True)
class Value:
    """An input, or what a function or a routing makes: a stream, and what flattens the placeholders in its shape."""

    stream: StreamId
    flatten: tuple[Flatten, ...]
    type: TypeId
    is_input: bool
    mapped: Fn | None = None
    """The function whose Map made it, if one did."""


class PartialProgram:
    """The lines of a program so far; Copies in them are left out, as the streams that they give are the same.

    Attributes:
        values: What the next line can use: the inputs, and the results of functions and routings.
        unused: The values that no function, routing or `return` uses.
        times: How often each function is applied.
        returned: Whether the program has ended.
    """

    def __init__(self, scope: Scope, space: TypeSpace) -> None:
        self._rules, self._space = Rules(scope.sizes), space
        self._builder = ProgramBuilder(scope)
        self._names: dict[StreamId, str] = dict(enumerate(scope.inputs))
        self._taken = set(scope.inputs)
        self._origins: dict[StreamId, tuple[Value, ...]] = {}
        self._pieces = set[StreamId]()
        self._values: dict[StreamId, Value] = {}
        self._used = set[Value]()
        self.times = Counter[Fn]()
        self.returned = False
        for stream, type_ in enumerate(space.inputs):
            self._add_value(Value(stream, (), type_, is_input=True))

    @classmethod
    def read(cls, text: str, scope: Scope, space: TypeSpace) -> PartialProgram:
        """The beginning of a program.

        Raises:
            ValueError: It is not the beginning of a well-typed program, or gives two streams one name.
        """
        program, found = parse(text, scope)
        if wrong := [each for each in found if each.code != "return"]:
            raise ValueError(wrong[0].render(text))
        read = cls(scope, space)
        read._read(program)
        return read

    @property
    def values(self) -> tuple[Value, ...]:
        """In the order of their lines."""
        return tuple(self._values.values())

    @property
    def unused(self) -> tuple[Value, ...]:
        """In the order of their lines."""
        return tuple(value for value in self.values if value not in self._used)

    def lines(self) -> Lines:
        """Further lines, none so far."""
        return Lines(self._builder.fork(), dict(self._names), frozenset(self._taken))

    def _read(self, program: Program) -> None:
        numbers = {stream: stream for stream in range(len(program.inputs))}
        for name in program.names.values():
            if name in self._taken:
                raise ValueError(f"the name {name} is given to two streams")
            self._taken.add(name)
        for node in program.nodes:
            inputs = tuple(numbers[stream] for stream in node.inputs)
            if isinstance(node.op, Copy):
                outputs = inputs * 2
            else:
                try:
                    outputs = self._builder.add(node.op, *inputs)
                except RuleError as error:
                    raise ValueError(f"line {node.span.line if node.span else '?'}: {error}") from None
                self._follow(node.op, inputs, outputs)
            numbers |= zip(node.outputs, outputs, strict=True)
            for old, new in zip(node.outputs, outputs, strict=True):
                self._names.setdefault(new, program.name(old))
        self.returned = bool(program.results)
        for result in program.results:
            self._used.update(self._origins.get(numbers[result], ()))

    def _follow(self, op: Primitive, inputs: Sequence[StreamId], outputs: Sequence[StreamId]) -> None:
        """Notes what a primitive uses and makes."""
        origins = tuple(value for stream in inputs for value in self._origins.get(stream, ()))
        if isinstance(op, Map | Accum | Scan | Merge):
            self.times[op.fn] += 1
        if isinstance(op, Map | Accum | Scan | Merge | Partition):
            self._used.update(origins)
        if isinstance(op, Partition) or (not isinstance(op, Merge) and not self._pieces.isdisjoint(inputs)):
            self._pieces.update(outputs)
        elif isinstance(op, Map | Accum | Scan | Merge):
            self._add_value(self._value(outputs[0], op.fn if isinstance(op, Map) else None))
        else:
            self._origins |= dict.fromkeys(outputs, origins)

    def _value(self, stream: StreamId, mapped: Fn | None) -> Value:
        type_ = self._builder.types[stream]
        flatten = tuple(without_placeholder(type_.shape))
        for op in flatten:
            type_ = op.infer((type_,), self._rules)[0]
        return Value(stream, flatten, self._space.intern(type_), is_input=False, mapped=mapped)

    def _add_value(self, value: Value) -> None:
        self._values[value.stream] = value
        self._origins[value.stream] = (value,)


@dataclass
class Lines:
    """Lines that follow a partial program: a backend of rules that shares the program's streams."""

    _builder: ProgramBuilder
    _names: dict[StreamId, str]
    _taken: frozenset[str]
    _before: int = field(init=False)

    def __post_init__(self) -> None:
        self._before = len(self._builder.nodes)

    def add(self, op: Primitive, *inputs: StreamId) -> tuple[StreamId, ...]:
        """The results of a primitive on streams; those of an equal one if there is one already."""
        return self._builder.add(op, *inputs)

    def stream(self, value: Value) -> StreamId:
        """A value's stream without placeholders in its shape."""
        stream = value.stream
        for op in value.flatten:
            stream = self.add(op, stream)[0]
        return stream

    @property
    def nodes_added(self) -> Sequence[Node]:
        """The primitives that are new."""
        return self._builder.nodes[self._before :]

    def text(self, *more: str) -> str:
        """The lines, and more after them."""
        fresh = self._fresh()
        return "\n".join([*(print_node(node, self._names, fresh) for node in self.nodes_added), *more])

    def returning(self, results: Sequence[StreamId]) -> str:
        """The lines, and a `return` of streams after them."""
        lines = self.text()
        last = f"return {', '.join(self._names[stream] for stream in results)}"
        return f"{lines}\n{last}" if lines else last

    def _fresh(self) -> Iterator[str]:
        bases = {name.partition("[")[0] for name in self._taken}
        return (name for number in count() if (name := f"E{number}") not in bases)
