"""Skills: the mined patterns of a request.

A mined pattern (`pipeline.agent.skills`) is text: the lines of a sub-program, and a solved task that has it. The lines
are found among the nodes of that task's program, which gives their functions and types; nothing is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pipeline.lms.embedded.prompt.parsing import SolvedExample, as_graph
from pipeline.lms.embedded.retrieval.applications import Application, applications_of
from pipeline.lms.embedded.retrieval.fingerprints import fingerprints_of
from step_runtime.program.graph import Node, Program, StreamId
from step_runtime.program.printer import print_primitive

_NAME = re.compile(r"\b([XY]\d+(?:\[\d+\])?)")


@dataclass(frozen=True)
class Skill:
    """A sub-program without structural primitives.

    Attributes:
        takes: The number of streams that it takes, which its applications count first.
        applications: Of functions, in order.
    """

    takes: int
    applications: tuple[Application, ...]


@lru_cache(maxsize=256)
def skill_of(solved: SolvedExample) -> Skill | None:
    """The skill that a task is an example of; None if it is of none, or of one without functions."""
    found = as_graph(solved) if solved.part else None
    if found is None:
        return None
    program, types, scope = found
    match = next(_matches(solved.part, program.nodes, {}, ()), None)
    if match is None:
        return None
    nodes, streams = match
    made = {stream for node in nodes for stream in node.outputs}
    takes = [stream for stream in streams.values() if stream not in made]
    order = dict.fromkeys([*takes, *(stream for node in nodes for stream in node.outputs)])
    number = {stream: place for place, stream in enumerate(order)}
    renumbered = tuple(
        Node(node.op, tuple(number[s] for s in node.inputs), tuple(number[s] for s in node.outputs)) for node in nodes
    )
    part = Program(tuple(f"X{place}" for place in range(len(takes))), renumbered, ())
    fingerprints = fingerprints_of(solved.task, scope.fns)
    applications, _ = applications_of(part, [types[stream] for stream in number], fingerprints)
    return Skill(len(takes), applications) if applications else None


def _matches(
    lines: Sequence[str], nodes: Sequence[Node], streams: Mapping[str, StreamId], found: tuple[Node, ...]
) -> Iterator[tuple[tuple[Node, ...], Mapping[str, StreamId]]]:
    """Nodes that are the lines, in order, and the streams that the lines' names then are."""
    if not lines:
        yield found, streams
        return
    target, _, value = lines[0].partition(" = ")
    primitive, _, argument = value.rpartition(".apply(")
    results, operands = _NAME.findall(target), _NAME.findall(argument)
    for place, node in enumerate(nodes):
        listed = [f"{results[0]}[{n}]" for n in range(len(node.outputs))] if node.op.lists_results else results
        if print_primitive(node.op) != primitive or len(operands) != len(node.inputs):
            continue
        named = [*zip(operands, node.inputs, strict=True), *zip(listed, node.outputs, strict=False)]
        both = {**streams, **dict(named)}
        agree = all(both[name] == stream for name, stream in [*streams.items(), *named])
        if agree and len(set(both.values())) == len(both):
            yield from _matches(lines[1:], nodes[place + 1 :], both, (*found, node))
