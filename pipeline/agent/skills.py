"""Skills: sub-programs that recur in solved tasks, mined by compression.

A skill is a connected part of a dataflow graph, up to functions of one role: functions with the same element types are
alike, and so are dims. Each skill is the part whose abstraction shortens the description of all programs most; its uses
then count as one node, and the next one is looked for, so that a skill may contain an earlier one (minimum description
length, as in SUBDUE: Cook and Holder, 1994).

Invariants: the same programs, in whichever order, give the same skills; every skill occurs in at least two programs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from pipeline.agent.domain import element_kind
from signatures.prompts import Reference
from step_runtime.base.functions import Fn
from step_runtime.base.types import StreamType
from step_runtime.language.comments import printable, quoted
from step_runtime.language.parser import parse
from step_runtime.language.shown_tasks import shown_task
from step_runtime.primitives import Primitive
from step_runtime.program.graph import Program
from step_runtime.program.printer import print_node
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import SolvedTask, Task
from step_runtime.verification.check import infer_types

LARGEST = 5
"""Nodes of a skill, at most; an earlier skill counts as one."""

MOST_PARTS = 4000
"""Parts of one program that are looked at, smallest first; only programs of dozens of nodes have more."""


@dataclass(frozen=True)
class Skill:
    """A recurring sub-program.

    Attributes:
        name: Its primitives, in order.
        takes: Types of the streams that it takes, as in the example.
        gives: Types of the streams that it gives.
        lines: Its program, as in the example.
        uses: How often it occurs.
        programs: In how many programs.
        saved: Bits by which it shortens the description of all programs.
        example: The shortest solved task that has it.
    """

    name: str
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    lines: tuple[str, ...]
    uses: int
    programs: int
    saved: float
    example: SolvedTask

    def as_pattern(self, number: int) -> Reference:
        """The skill as a pattern of a base prompt, like those written by hand.

        Its example may be somebody else's: as in a demonstration, what could steer in it is not shown.
        """
        description = quoted(
            f"Recurs in {self.programs} solved tasks, with other functions and dims. Takes {'; '.join(self.takes)}."
            f" Gives {'; '.join(self.gives)}."
        )
        program = printable("\n".join(self.lines))
        task = shown_task(self.example.task).model_dump(by_alias=True, exclude={"impl"})
        example = {**task, "impl": printable(self.example.program)}
        return Reference(
            name=f"Mined pattern {number}: {self.name}",
            desc=f"{description}\n{program}\n",
            examples=[Task.model_validate(example)],
        )


@dataclass(frozen=True)
class _Node:
    """A primitive, or a skill that was found before; `members` are numbers of the program's own nodes."""

    label: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    members: tuple[int, ...]


@dataclass(frozen=True)
class _Graph:
    """A solved task, whose nodes become fewer as skills are found."""

    solved: SolvedTask
    program: Program
    types: Sequence[StreamType | None]
    nodes: tuple[_Node, ...]


@dataclass(frozen=True)
class _Part:
    """Some nodes of a graph, by number, in canonical order; the streams that they take and give."""

    graph: int
    nodes: tuple[int, ...]
    takes: tuple[int, ...]
    gives: tuple[int, ...]


@dataclass(frozen=True)
class _Cost:
    """Bits of a node: its label, and each of its inputs."""

    label: float
    stream: float

    def of(self, inputs: int) -> float:
        return self.label + inputs * self.stream


def mine(solved: Iterable[SolvedTask], count: int) -> list[Skill]:
    """At most `count` skills, the one that saves most first; fewer where nothing more becomes shorter.

    Args:
        solved: Tasks with right programs; those that cannot be read are left out.
        count: How many.
    """
    ordered = sorted(solved, key=lambda each: (each.task.name or "", each.program))
    graphs = [graph for each in ordered if (graph := _graph(each)) is not None]
    found: list[Skill] = []
    while len(found) < count and graphs:
        cost = _cost(graphs)
        ranked = ((_saved(parts, graphs, cost), key, parts) for key, parts in _uses(graphs).items())
        saved, _, parts = max(ranked, key=lambda each: each[:2], default=(0.0, "", []))
        if saved <= 0:
            break
        found.append(_skill(parts, graphs, saved))
        label = f"skill {len(found)}"
        by_graph = defaultdict(list)
        for part in parts:
            by_graph[part.graph].append(part)
        graphs = [_contracted(graph, by_graph[number], label) for number, graph in enumerate(graphs)]
    return found


def _graph(solved: SolvedTask) -> _Graph | None:
    scope = static_scope(solved.task)
    program, wrong = parse(solved.program, scope)
    types, broken = infer_types(program, scope)
    if wrong or broken:
        return None
    nodes = tuple(
        _Node(_label(node.op), node.inputs, node.outputs, (number,)) for number, node in enumerate(program.nodes)
    )
    return _Graph(solved, program, types, nodes)


def _label(op: Primitive) -> str:
    """A primitive with its numbers, and its function's role: the element types that it takes and gives."""
    config = []
    for name in op.config_names():
        value: Any = getattr(op, name)
        if isinstance(value, Fn):
            config.append(f"{element_kind(value.input)} -> {element_kind(value.output)}")
        elif isinstance(value, int):
            config.append(f"{name}={value}")
    return f"{op.name}({'; '.join(config)})"


def _cost(graphs: Sequence[_Graph]) -> _Cost:
    labels = {node.label for graph in graphs for node in graph.nodes}
    streams = sum(len(graph.types) for graph in graphs) / len(graphs)
    return _Cost(math.log2(1 + len(labels)), math.log2(1 + streams))


def _uses(graphs: Sequence[_Graph]) -> dict[str, list[_Part]]:
    """By canonical form, uses that do not overlap, of what at least two programs have."""
    found: dict[str, list[_Part]] = defaultdict(list)
    for number, graph in enumerate(graphs):
        taken: dict[str, set[int]] = defaultdict(set)
        for key, part in _parts(number, graph):
            if not taken[key].intersection(part.nodes):
                taken[key].update(part.nodes)
                found[key].append(part)
    return {key: parts for key, parts in found.items() if len({part.graph for part in parts}) > 1}


def _saved(parts: Sequence[_Part], graphs: Sequence[_Graph], cost: _Cost) -> float:
    """Bits that all uses save, less those of the definition."""
    first = parts[0]
    nodes = graphs[first.graph].nodes
    whole = sum(cost.of(len(nodes[number].inputs)) for number in first.nodes)
    return len(parts) * (whole - cost.of(len(first.takes))) - whole


def _parts(number: int, graph: _Graph) -> Iterator[tuple[str, _Part]]:
    """The connected parts of two to `LARGEST` nodes that one node can replace."""
    nodes, before = graph.nodes, _ancestors(graph)
    makers = {stream: place for place, node in enumerate(nodes) for stream in node.outputs}
    neighbors: dict[int, set[int]] = defaultdict(set)
    for place, node in enumerate(nodes):
        for maker in (makers[stream] for stream in node.inputs if stream in makers):
            neighbors[place].add(maker)
            neighbors[maker].add(place)
    layer = {frozenset([place]) for place in range(len(nodes))}
    looked_at = 0
    for _ in range(LARGEST - 1):
        layer = {part | {other} for part in layer for place in part for other in neighbors[place] - part}
        for part in sorted(layer, key=sorted):
            looked_at += 1
            if looked_at > MOST_PARTS:
                return
            if not any(before[between] & part for place in part for between in before[place] - part):
                yield _canonical(number, graph, part)


def _ancestors(graph: _Graph) -> list[frozenset[int]]:
    """For each node, all that it depends on."""
    makers = {stream: place for place, node in enumerate(graph.nodes) for stream in node.outputs}
    known: list[frozenset[int]] = []
    for node in graph.nodes:
        direct = {makers[stream] for stream in node.inputs if stream in makers}
        known.append(frozenset(direct).union(*(known[place] for place in direct)))
    return known


def _canonical(number: int, graph: _Graph, part: frozenset[int]) -> tuple[str, _Part]:
    """The part's text, equal for parts that are alike, and the part in the order of that text."""
    nodes = graph.nodes
    makers = {stream: place for place in part for stream in nodes[place].outputs}
    written: dict[int, str] = {}

    def color(place: int) -> str:
        if place not in written:
            sources = (color(makers[s]) if s in makers else _kind(graph, s) for s in nodes[place].inputs)
            written[place] = f"{nodes[place].label}({', '.join(sources)})"
        return written[place]

    order = sorted(part, key=lambda place: (len(color(place)), color(place), place))
    names: dict[int, str] = {}
    takes: list[int] = []
    lines = []
    for line, place in enumerate(order):
        for stream in nodes[place].inputs:
            if stream not in makers and stream not in names:
                names[stream] = f"x{len(takes)}: {_kind(graph, stream)}"
                takes.append(stream)
        names |= {stream: f"{line}.{index}" for index, stream in enumerate(nodes[place].outputs)}
        lines.append(f"{nodes[place].label}({', '.join(names.get(s, '?') for s in nodes[place].inputs)})")
    outside = {s for place, node in enumerate(nodes) if place not in part for s in node.inputs}
    outside |= set(graph.program.results)
    gives = [stream for place in order for stream in nodes[place].outputs if stream in outside]
    key = "; ".join([*lines, *(names[stream] for stream in gives)])
    return key, _Part(number, tuple(order), tuple(takes), tuple(gives))


def _kind(graph: _Graph, stream: int) -> str:
    """The kind of a stream's elements."""
    type_ = graph.types[stream]
    return "?" if type_ is None else element_kind(type_.dtype)


def _contracted(graph: _Graph, parts: Sequence[_Part], label: str) -> _Graph:
    """The graph with a node in place of each part; a part is kept if it and an earlier one would need each other."""
    nodes = graph.nodes
    accepted: list[_Part] = []
    for part in parts:
        merged = {place for one in (*accepted, part) for place in one.nodes}
        left = [node for place, node in enumerate(graph.nodes) if place not in merged]
        for one in (*accepted, part):
            members = sorted(member for place in one.nodes for member in graph.nodes[place].members)
            left.append(_Node(label, one.takes, one.gives, tuple(members)))
        if (ordered := _ordered(left, len(graph.program.inputs))) is not None:
            accepted.append(part)
            nodes = ordered
    return replace(graph, nodes=nodes)


def _ordered(nodes: Iterable[_Node], inputs: int) -> tuple[_Node, ...] | None:
    """The nodes in an order in which streams are made before they are taken; None if there is none."""
    made, left, ordered = set(range(inputs)), list(nodes), list[_Node]()
    while left:
        ready = [node for node in left if made.issuperset(node.inputs)]
        if not ready:
            return None
        first = min(ready, key=lambda node: node.members)
        ordered.append(first)
        left.remove(first)
        made.update(first.outputs)
    return tuple(ordered)


def _skill(parts: Sequence[_Part], graphs: Sequence[_Graph], saved: float) -> Skill:
    def length(part: _Part) -> tuple[int, str]:
        graph = graphs[part.graph]
        return len(graph.program.nodes), graph.solved.task.name or ""

    shown = min(parts, key=length)
    graph = graphs[shown.graph]
    members = sorted(member for place in shown.nodes for member in graph.nodes[place].members)
    own = [graph.program.nodes[member] for member in members]
    return Skill(
        name=", ".join(node.op.name for node in own),
        takes=tuple(_type(graph, stream) for stream in shown.takes),
        gives=tuple(_type(graph, stream) for stream in shown.gives),
        lines=_lines(graph, members, shown.takes),
        uses=len(parts),
        programs=len({part.graph for part in parts}),
        saved=saved,
        example=graph.solved,
    )


def _type(graph: _Graph, stream: int) -> str:
    type_ = graph.types[stream]
    return "?" if type_ is None else str(type_)


def _lines(graph: _Graph, members: Sequence[int], takes: Sequence[int]) -> tuple[str, ...]:
    """The part as a program of its own, with the types of what each line makes."""
    names = {stream: f"X{number}" for number, stream in enumerate(takes)}
    lines, fresh = [], (f"Y{number}" for number in count())
    for node in (graph.program.nodes[member] for member in members):
        kinds = ", ".join(dict.fromkeys(_type(graph, stream) for stream in node.outputs))
        lines.append(f"{print_node(node, names, fresh)} # {kinds}")
    return tuple(lines)
