"""How a stream is made, apart from the tables of any one round of the search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

from pipeline.synthesis.lowering import ProgramBuilder
from pipeline.synthesis.rules import Rule
from pipeline.synthesis.value_blocks import SeenValues
from step_runtime.base.functions import Fn
from step_runtime.base.types import StreamType
from step_runtime.program.graph import Node, Program, StreamId


@dataclass(frozen=True, eq=False)
class SeedStream:
    """A stream that a round starts from: `values` is one row, and `cost` 0 for an input and 1 for what is made."""

    type: StreamType
    values: Tensor
    term: Term
    cost: int


class SeedStreams:
    """Streams that differ in type or value, in the order of their addition."""

    def __init__(self, streams: Iterable[SeedStream] = ()) -> None:
        self._streams: list[SeedStream] = []
        self._seen: dict[StreamType, SeenValues] = {}
        for stream in streams:
            self.add(stream)

    def __iter__(self) -> Iterator[SeedStream]:
        return iter(self._streams)

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, stream: SeedStream) -> bool:
        """Adds a stream, unless there is one of its type and value; whether it was added."""
        new = bool(len(self._seen.setdefault(stream.type, SeenValues()).new(stream.values)))
        self._streams += [stream] if new else []
        return new


@dataclass(frozen=True, eq=False)
class InputTerm:
    """An input of the task, by its place."""

    place: int


@dataclass(frozen=True, eq=False)
class RuleTerm:
    """A rule applied to terms."""

    rule: Rule
    operands: tuple[Term, ...]


@dataclass(frozen=True, eq=False)
class ProgramTerm:
    """A stream of a program that was found elsewhere."""

    program: Program
    stream: StreamId


Term: TypeAlias = InputTerm | RuleTerm | ProgramTerm


class TermWriter:
    """Writes terms into one program, each once."""

    def __init__(self, builder: ProgramBuilder) -> None:
        self.builder = builder
        self._written: dict[Term, StreamId] = {}

    def stream(self, term: Term) -> StreamId:
        """The stream that a term makes."""
        if term not in self._written:
            self._written[term] = self._write(term)
        return self._written[term]

    def _write(self, term: Term) -> StreamId:
        if isinstance(term, InputTerm):
            return term.place
        if isinstance(term, RuleTerm):
            return term.rule.write(self.builder, [self.stream(operand) for operand in term.operands])
        streams = {place: place for place in range(len(term.program.inputs))}
        for node in needed_nodes(term.program, term.stream):
            streams |= zip(node.outputs, self.builder.add(node.op, *(streams[i] for i in node.inputs)), strict=True)
        return streams[term.stream]


def needed_nodes(program: Program, stream: StreamId) -> list[Node]:
    """The nodes that lead to a stream, in order."""
    needed, found = {stream}, list[Node]()
    for node in reversed(program.nodes):
        if not needed.isdisjoint(node.outputs):
            found.append(node)
            needed.update(node.inputs)
    return found[::-1]


def functions_of(term: Term) -> set[Fn]:
    """The functions that rules apply in a term; none of a program's."""
    found, open_, seen = set[Fn](), [term], set[Term]()
    while open_:
        each = open_.pop()
        if isinstance(each, RuleTerm) and each not in seen:
            seen.add(each)
            found.add(each.rule.fn)
            open_ += each.operands
    return found
