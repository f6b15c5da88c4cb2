"""The rewrites. Each takes a program and a node, and returns replacements of that node.

Every rule keeps the values of all results, for any pure functions. `merge folds` and `split fold` in addition need a
function whose folds may be split, such as a sum from 0; `Shared.merges` says which ones are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import TypeAlias

from step_runtime.base.errors import RuleError
from step_runtime.base.shapes import is_routed
from step_runtime.base.types import StreamType
from step_runtime.primitives import (
    Accum,
    Bufferize,
    Flatten,
    Map,
    Primitive,
    Promote,
    Repeat,
    RepeatRef,
    Reshape,
    Rules,
    Streamify,
    Zip,
)
from step_runtime.program.graph import Node, StreamId
from step_runtime.rewriting.shared import Build, Builder, Shared, as_they_are, in_turn

Rule: TypeAlias = Callable[[Shared, Node], Iterator[Build]]

_LAYOUT = (Promote, Flatten, Reshape, Bufferize, Streamify)
"""Primitives that keep all numbers in their order."""
_SHAPE = (Promote, Flatten, Reshape)
"""Primitives that keep all elements in their order."""


def compute_before_repeating(shared: Shared, node: Node) -> Iterator[Build]:
    """`Map(f)` or `Zip` of elements repeated in the same way: of the elements, and then repeated."""
    makers = [shared.made_by(stream) for stream in node.inputs]
    if not isinstance(node.op, Map | Zip) or not all(
        maker and isinstance(maker.op, Repeat | RepeatRef) for maker in makers
    ):
        return
    first, *others = [maker for maker in makers if maker is not None]
    if all((other.op, other.inputs[1:]) == (first.op, first.inputs[1:]) for other in others):
        elements = [maker.inputs[0] for maker in (first, *others)]
        yield lambda new, now: new.add(
            first.op, [*new.add(node.op, [now(stream) for stream in elements]), *map(now, first.inputs[1:])]
        )


def repeat_before_computing(shared: Shared, node: Node) -> Iterator[Build]:
    """The inverse: a repeated result of `Map(f)` is computed from repeated elements."""
    maker = shared.made_by(node.inputs[0])
    if isinstance(node.op, Repeat) and maker is not None and isinstance(maker.op, Map):
        yield lambda new, now: new.add(maker.op, [new.add(node.op, [now(stream)])[0] for stream in maker.inputs])


def compute_before_reshaping(shared: Shared, node: Node) -> Iterator[Build]:
    """`Map(f)` or `Zip` of streams reshaped in the same way: of the streams, and then reshaped."""
    makers = [shared.made_by(stream) for stream in node.inputs]
    known = [maker for maker in makers if maker is not None and isinstance(maker.op, _SHAPE)]
    if not isinstance(node.op, Map | Zip) or len(known) < len(makers):
        return
    shapes = {shared.types[maker.inputs[0]].shape for maker in known}
    if len({maker.op for maker in known}) == len(shapes) == 1:
        yield lambda new, now: new.add(known[0].op, new.add(node.op, [now(maker.inputs[0]) for maker in known]))


def drop_round_trip(shared: Shared, node: Node) -> Iterator[Build]:
    """A stream that is buffered, streamed and reshaped, and has its own type again in the end: the stream itself."""
    for stream in _origins(shared, node):
        if shared.types[stream] == shared.types[node.outputs[0]]:
            yield as_they_are(stream)


def reshape_at_once(shared: Shared, node: Node) -> Iterator[Build]:
    """Several primitives that reshape a stream: one that gives the same type, or two in the place of three or more."""
    target = shared.types[node.outputs[0]]
    for replaced, stream in enumerate(_origins(shared, node), 1):
        steps = _reshapes(shared, shared.types[stream]) if replaced > 1 else ()
        for op, between in steps:
            if between == target:
                yield in_turn(stream, op)
            elif replaced > 2 and isinstance(op, _SHAPE):
                yield from (in_turn(stream, op, last) for last, found in _reshapes(shared, between) if found == target)


def _origins(shared: Shared, node: Node | None) -> Iterator[StreamId]:
    """The streams before a primitive that keeps all numbers in order, and before those that lead to it."""
    while node is not None and isinstance(node.op, _LAYOUT):
        yield node.inputs[0]
        node = shared.made_by(node.inputs[0])


def _reshapes(shared: Shared, type_: StreamType) -> Iterator[tuple[Primitive, StreamType]]:
    """The primitives that reshape a stream of a type, with the type that each gives."""
    rank = type_.rank
    ops = [
        *(Promote(b) for b in range(rank + 2)),
        *(Flatten(tuple(range(first, last + 1))) for first in range(1, rank + 1) for last in range(first, rank + 1)),
        Streamify(),
        *(Bufferize(a) for a in range(1, rank + 1)),
    ]
    for op in ops:
        with suppress(RuleError):
            [found] = op.infer([type_], Rules(shared.scope.sizes))
            yield op, found


def repeat_without_reference(shared: Shared, node: Node) -> Iterator[Build]:
    """`RepeatRef` by a reference whose inner dim has a name: `Repeat` by that dim, which waits for no other stream."""
    if isinstance(node.op, RepeatRef):
        times = shared.types[node.inputs[1]].shape[0]
        if not any(is_routed(symbol) for symbol in times.free_symbols):
            yield lambda new, now: new.add(Repeat(times), [now(node.inputs[0])])


def repeat_with_reference(shared: Shared, node: Node) -> Iterator[Build]:
    """An operand that is repeated by a dim: repeated by another operand, before which its elements wait once each."""
    for place, stream in enumerate(node.inputs):
        maker = shared.made_by(stream)
        if len(node.inputs) < 2 or maker is None or not isinstance(maker.op, Repeat):
            continue
        shape = shared.types[stream].shape
        for other in dict.fromkeys(node.inputs):
            if other != stream and shared.types[other].shape == shape:
                yield _with_operand(node, place, RepeatRef(), (maker.inputs[0], other))


def repeat_once(shared: Shared, node: Node) -> Iterator[Build]:
    """Repeated elements that are repeated again, maybe in another shape: repeated once, and then shaped."""
    if not isinstance(node.op, Repeat):
        return
    stream, shaped = node.inputs[0], list[Primitive]()
    while (maker := shared.made_by(stream)) is not None and isinstance(maker.op, _SHAPE):
        shaped.insert(0, _outside(maker.op))
        stream = maker.inputs[0]
    if maker is not None and isinstance(maker.op, Repeat):
        inner = node.op.n
        yield in_turn(maker.inputs[0], Repeat(inner * maker.op.n), Reshape((0,), inner), *shaped)


def _outside(op: Promote | Flatten | Reshape) -> Primitive:
    """A primitive that shapes a stream, of one that has a further innermost dim."""
    if isinstance(op, Promote):
        return Promote(op.b + 1)
    return replace(op, L=tuple(dim + 1 for dim in op.L))


def merge_folds(shared: Shared, node: Node) -> Iterator[Build]:
    """A fold of folds by one function: one fold of all."""
    maker = shared.made_by(node.inputs[0])
    if isinstance(node.op, Accum) and maker is not None and isinstance(maker.op, Accum):
        outer, inner = node.op, maker.op
        if outer.fn is inner.fn and shared.merges(outer.fn):
            whole = Accum(outer.fn, outer.b + inner.b)
            yield lambda new, now: new.add(whole, [now(maker.inputs[0])])


def split_fold(shared: Shared, node: Node) -> Iterator[Build]:
    """The inverse: a fold of several dims in two steps."""
    if isinstance(node.op, Accum) and node.op.b > 1 and node.op.fn.input == node.op.fn.output:
        fn, b = node.op.fn, node.op.b
        for inner in range(1, b) if shared.merges(fn) else ():
            yield in_turn(node.inputs[0], Accum(fn, inner), Accum(fn, b - inner))


def share(shared: Shared, node: Node) -> Iterator[Build]:
    """The same primitive on the same streams as an earlier one: the earlier one's results."""
    for earlier in takewhile(lambda each: each is not node, shared.program.nodes):
        if (earlier.op, earlier.inputs) == (node.op, node.inputs):
            yield as_they_are(*earlier.outputs)
            return


def compute_again(shared: Shared, node: Node) -> Iterator[Build]:
    """The inverse: a stream that is used elsewhere, too, is made once more for this use."""
    uses = shared.program.consumers()
    for place, stream in enumerate(node.inputs):
        maker = shared.made_by(stream)
        shared_use = len(uses[stream]) + (stream in shared.program.results) > 1
        if maker is not None and len(maker.outputs) == 1 and shared_use:
            yield _with_operand(node, place, maker.op, maker.inputs)


def _with_operand(node: Node, place: int, op: Primitive, sources: Sequence[StreamId]) -> Build:
    """A node that has one operand made for itself."""

    def build(new: Builder, now: Callable[[StreamId], StreamId]) -> Sequence[StreamId]:
        inputs = [now(stream) for stream in node.inputs]
        inputs[place] = new.add(op, [now(stream) for stream in sources])[0]
        return new.add(node.op, inputs, len(node.outputs))

    return build


RULES: Mapping[str, Rule] = {
    "drop a round trip": drop_round_trip,
    "share": share,
    "merge folds": merge_folds,
    "compute before repeating": compute_before_repeating,
    "repeat once": repeat_once,
    "repeat with reference": repeat_with_reference,
    "reshape at once": reshape_at_once,
    "compute before reshaping": compute_before_reshaping,
    "repeat without reference": repeat_without_reference,
    "repeat before computing": repeat_before_computing,
    "split a fold": split_fold,
    "compute again": compute_again,
}
"""All rules by name; those that usually save come first."""
