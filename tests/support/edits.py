"""Single edits of a program's graph, each given as the text of the program that it makes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations, permutations
from typing import Any

import sympy

from step_runtime import primitives as p
from step_runtime.program.graph import Node, Program
from step_runtime.program.printer import print_program
from step_runtime.tasks.scope import Scope

FRESH = 1_000_000
"""Where the numbers of inserted streams start; printing numbers all streams again."""


@dataclass(frozen=True)
class Mutant:
    """A program that differs from another in one edit of some kind."""

    kind: str
    text: str


def mutants(program: Program, scope: Scope) -> list[Mutant]:
    """Every single edit of a program, no text twice, the program itself left out."""
    seen = {print_program(program)}
    found = []
    for kind, edit in _EDITS.items():
        for edited in edit(program, scope):
            text = print_program(_renumbered(edited))
            if text not in seen:
                seen.add(text)
                found.append(Mutant(kind, text))
    return found


def _renumbered(program: Program) -> Program:
    """The same graph, its streams numbered by the nodes' order; a stream used before it is made stays unmade."""
    number = {stream: stream for stream in range(len(program.inputs))}
    for node in program.nodes:
        for stream in node.outputs:
            number[stream] = len(number)
    nodes = tuple(
        Node(node.op, tuple(number[s] for s in node.inputs), tuple(number[s] for s in node.outputs))
        for node in program.nodes
    )
    return Program(program.inputs, nodes, tuple(number[stream] for stream in program.results))


def _changed(op: p.Primitive, key: str, value: object) -> p.Primitive:
    """The primitive with another configuration, right or wrong."""
    other = copy.copy(op)
    object.__setattr__(other, key, value)
    return other


def _with_node(program: Program, place: int, node: Node) -> Program:
    return replace(program, nodes=(*program.nodes[:place], node, *program.nodes[place + 1 :]))


def _made_before(program: Program, place: int) -> list[int]:
    """The streams that a node may consume."""
    return [*range(len(program.inputs)), *(stream for node in program.nodes[:place] for stream in node.outputs)]


def _rewired(program: Program, old: Sequence[int], new: int, *, since: int = 0) -> Program:
    def stream(number: int) -> int:
        return new if number in old else number

    nodes = [
        replace(node, inputs=tuple(map(stream, node.inputs))) if place >= since else node
        for place, node in enumerate(program.nodes)
    ]
    return replace(program, nodes=tuple(nodes), results=tuple(map(stream, program.results)))


def _drop(program: Program, scope: Scope) -> Iterator[Program]:
    """A primitive left out; one of its inputs takes the place of its outputs."""
    for place, node in enumerate(program.nodes):
        without = replace(program, nodes=program.nodes[:place] + program.nodes[place + 1 :])
        for stream in dict.fromkeys(node.inputs):
            yield _rewired(without, node.outputs, stream)


def _swap_operands(program: Program, scope: Scope) -> Iterator[Program]:
    for place, node in enumerate(program.nodes):
        for one, other in combinations(range(len(node.inputs)), 2):
            inputs = list(node.inputs)
            inputs[one], inputs[other] = inputs[other], inputs[one]
            yield _with_node(program, place, replace(node, inputs=tuple(inputs)))


def _swap_results(program: Program, scope: Scope) -> Iterator[Program]:
    """The streams of a Copy or a Partition in another order."""
    for place, node in enumerate(program.nodes):
        for outputs in permutations(node.outputs):
            yield _with_node(program, place, replace(node, outputs=outputs))


def _other_operand(program: Program, scope: Scope) -> Iterator[Program]:
    for place, node in enumerate(program.nodes):
        for index in range(len(node.inputs)):
            for stream in _made_before(program, place):
                inputs = (*node.inputs[:index], stream, *node.inputs[index + 1 :])
                yield _with_node(program, place, replace(node, inputs=inputs))


def _other_configuration(program: Program, scope: Scope) -> Iterator[Program]:
    """Other a, b, n, L, N."""
    runs = [tuple(range(first, last + 1)) for first in range(4) for last in range(first, 4)]
    dims = [*scope.dims.values(), *map(sympy.Integer, range(4))]
    values: dict[str, Sequence[object]] = {"a": range(5), "b": range(5), "n": dims, "N": dims, "L": runs}
    for place, node in enumerate(program.nodes):
        for field in fields(node.op):
            for value in values.get(field.name, ()):
                yield _with_node(program, place, replace(node, op=_changed(node.op, field.name, value)))


def _other_function(program: Program, scope: Scope) -> Iterator[Program]:
    for place, node in enumerate(program.nodes):
        for fn in scope.fns.values() if node.op.functions() else ():
            yield _with_node(program, place, replace(node, op=_changed(node.op, "fn", fn)))


def _other_primitive(program: Program, scope: Scope) -> Iterator[Program]:
    """A primitive in place of another that takes as many streams."""
    for place, node in enumerate(program.nodes):
        for make in _REPLACEMENTS.get(type(node.op), ()):
            yield _with_node(program, place, replace(node, op=make(node.op)))


_REPLACEMENTS: dict[type[p.Primitive], Sequence[Callable[[Any], p.Primitive]]] = {
    p.Accum: [lambda op: p.Scan(op.fn, op.b)],
    p.Scan: [lambda op: p.Accum(op.fn, op.b)],
    p.Promote: [lambda _: p.Repeat(sympy.Integer(1)), lambda _: p.Repeat(sympy.Integer(2))],
    p.Repeat: [lambda _: p.Promote(0)],
    p.Zip: [lambda _: p.RepeatRef()],
    p.RepeatRef: [lambda _: p.Zip()],
    p.Bufferize: [lambda _: p.Streamify()],
    p.Streamify: [lambda _: p.Bufferize(1)],
    p.Flatten: [lambda op: p.Reshape(op.L, sympy.Integer(1))],
}
"""The primitives that may stand in the place of each."""


def _other_order(program: Program, scope: Scope) -> Iterator[Program]:
    """Two neighbours exchanged that do not depend on each other; this changes nothing."""
    for place, (one, other) in enumerate(zip(program.nodes, program.nodes[1:], strict=False)):
        if not set(one.outputs) & set(other.inputs):
            nodes = (*program.nodes[:place], other, one, *program.nodes[place + 2 :])
            yield replace(program, nodes=nodes)


def _insert(program: Program, scope: Scope) -> Iterator[Program]:
    """A primitive more, behind any stream."""
    plain: list[p.Primitive] = [
        p.Identity(),
        p.Copy(),
        p.Streamify(),
        *map(p.Promote, range(4)),
        *map(p.Bufferize, (1, 2)),
    ]
    plain += [p.Repeat(sympy.Integer(1)), p.Repeat(sympy.Integer(2)), *(p.Flatten((dim,)) for dim in (1, 2, 3))]
    plain += [p.Reshape((dim,), sympy.Integer(1)) for dim in range(3)]
    for fn in scope.fns.values():
        plain += [p.Accum(fn, 1), p.Scan(fn, 1)] if fn.stateful else [p.Map(fn)]
    for op in plain:
        yield from _inserted(program, [op])


def _insert_pair(program: Program, scope: Scope) -> Iterator[Program]:
    """Two primitives more that undo each other where both are allowed; this changes nothing."""
    one = sympy.Integer(1)
    for dim in (1, 2, 3):
        yield from _inserted(program, [p.Promote(dim), p.Flatten((dim,))])
        yield from _inserted(program, [p.Reshape((dim - 1,), one), p.Flatten((dim,))])
        yield from _inserted(program, [p.Bufferize(dim), p.Streamify()])
    yield from _inserted(program, [p.Promote(0), p.Flatten((1,))])
    yield from _inserted(program, [p.Repeat(one), p.Flatten((1,))])


def _inserted(program: Program, ops: Sequence[p.Primitive]) -> Iterator[Program]:
    for place in range(len(program.nodes) + 1):
        made = program.nodes[place - 1].outputs if place else range(len(program.inputs))
        for stream in made:
            added, last = [], stream
            for number, op in enumerate(ops):
                outputs = (FRESH + 2 * number, FRESH + 2 * number + 1)[: 1 + isinstance(op, p.Copy)]
                added.append(Node(op, (last,), outputs))
                last = outputs[0]
            rewired = _rewired(program, [stream], last, since=place)
            yield replace(rewired, nodes=(*rewired.nodes[:place], *added, *rewired.nodes[place:]))


def _other_result(program: Program, scope: Scope) -> Iterator[Program]:
    """Another stream returned, the outputs in another order, one too many or one too few."""
    results = program.results
    streams = _made_before(program, len(program.nodes))
    for index in range(len(results)):
        for stream in streams:
            yield replace(program, results=(*results[:index], stream, *results[index + 1 :]))
        if len(results) > 1:
            yield replace(program, results=results[:index] + results[index + 1 :])
    for order in permutations(results):
        yield replace(program, results=order)
    yield replace(program, results=(*results, results[0]))


_EDITS: dict[str, Callable[[Program, Scope], Iterator[Program]]] = {
    "drop a primitive": _drop,
    "swap operands": _swap_operands,
    "swap results": _swap_results,
    "another operand": _other_operand,
    "another a, b, n, L, N": _other_configuration,
    "another function": _other_function,
    "another primitive": _other_primitive,
    "another order": _other_order,
    "insert a primitive": _insert,
    "insert an undone pair": _insert_pair,
    "another result": _other_result,
}
