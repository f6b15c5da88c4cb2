"""When every token of every stream of a program comes, at given sizes, and how long queues become.

A join is a primitive of several operands. Its queues are measured on the clock of the stream that was copied where the
ways of its operands part: at each tick one of its values comes, and all else takes no time. A queue's length is the
largest difference between the values that the way has made and those that the join has taken, at the end of a tick.
Operands that do not descend from the copied stream are read when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from step_runtime.base.shapes import Sizes, torch_shape
from step_runtime.base.types import StreamType
from step_runtime.base.units import Measure
from step_runtime.cost.chip import Chip
from step_runtime.primitives.token_times import Bits, Ints, Pace, Schedule, Tokens, spelled
from step_runtime.program.graph import Program

Routing = Mapping[int, Bits]
"""Which streams each index element chooses, `(elements, streams)`, by the number of the Partition or Merge."""


@dataclass(frozen=True)
class Timeline:
    """A program's timing on a chip with unlimited queues.

    Attributes:
        streams: The tokens of every stream, in cycles.
        sizes: The size of every dim; of a routed dim without a routing, its upper bound.
        cycles: What one call of each node's function takes; 0 for a node without one.
    """

    program: Program
    types: Sequence[StreamType]
    streams: tuple[Tokens, ...]
    sizes: Sizes
    cycles: tuple[int, ...]
    routing: Routing

    @property
    def end(self) -> int:
        """The cycle in which the last token of all comes."""
        return max(tokens.end for tokens in self.streams)

    def schedule(self, number: int, tokens: Sequence[Tokens]) -> Schedule:
        """A node's schedule for other times of its operands' tokens, if it takes no time itself."""
        node = self.program.nodes[number]
        pace = Pace(self.sizes, 0, 0, self.routing.get(number))
        return node.op.schedule(tokens, [self.types[stream] for stream in node.inputs], pace)

    def path(self) -> list[tuple[int, int]]:
        """The critical path: nodes from an input to the last token of all, each with the cycles that it adds.

        A node's last token waits for the last token of the operand whose own comes last. What remains of the sum of all
        cycles is the time at which that input's last token arrives.
        """
        stream = max(range(len(self.streams)), key=lambda number: self.streams[number].end)
        producers = {output: number for number, node in enumerate(self.program.nodes) for output in node.outputs}
        found: list[tuple[int, int]] = []
        while stream in producers:
            number, after = producers[stream], self.streams[stream].end
            stream = max(self.program.nodes[number].inputs, key=lambda operand: self.streams[operand].end)
            found.append((number, after - self.streams[stream].end))
        return found[::-1]


def bounds_of(program: Program, types: Sequence[StreamType], sizes: Sizes, routing: Routing) -> dict[str, int]:
    """The size of every dim: of a routed one as the routing makes it, or its upper bound."""
    bounds = dict(sizes)
    for number, node in enumerate(program.nodes):
        outputs = [types[stream] for stream in node.outputs]
        found = node.op.dim_bounds([types[stream] for stream in node.inputs], outputs, bounds)
        if found and number in routing:
            counts = routing[number].sum(0).tolist()
            found = {output.shape[-1].name: count for output, count in zip(outputs, counts, strict=True)}
        bounds |= found
    return bounds


def timeline(
    program: Program,
    types: Sequence[StreamType],
    sizes: Sizes,
    calls: Callable[[int], int],
    chip: Chip,
    routing: Routing,
) -> Timeline:
    """Runs the rules on time.

    The elements of every input arrive through a port of its own, each after `⌈|T| / bandwidth⌉` cycles more. `calls`
    gives the operations of one call of a node's function, by the node's number.
    """
    bounds = bounds_of(program, types, sizes, routing)
    streams = [_input(types[number], bounds, chip) for number in range(len(program.inputs))]
    cycles = []
    for number, node in enumerate(program.nodes):
        cycles.append(chip.cycles(calls(number)) if node.op.functions() else 0)
        pace = Pace(bounds, cycles[-1], 1, routing.get(number), chip.lanes)
        operands = [streams[stream] for stream in node.inputs]
        streams += node.op.schedule(operands, [types[stream] for stream in node.inputs], pace).outputs
    return Timeline(program, types, tuple(streams), bounds, tuple(cycles), routing)


def _input(stream: StreamType, sizes: Sizes, chip: Chip) -> Tokens:
    levels = spelled(torch_shape(stream.shape, sizes))
    port = chip.transfer(Measure(sizes, chip.scalar_bits).bits(stream.dtype))
    return Tokens(levels, np.cumsum(levels == 0) * port)


class Join(NamedTuple):
    """An operand of a join: the node's number, the operand's place, and the longest its queue becomes, in values."""

    node: int
    operand: int
    length: int


def queues(timeline: Timeline) -> list[Join]:
    """The queue of every operand of every join, in program order."""
    program = timeline.program
    joins = {number: clocks(program, number) for number, node in enumerate(program.nodes) if len(node.inputs) > 1}
    longest = {(number, operand): 0 for number in joins for operand in range(len(program.nodes[number].inputs))}
    for clock in sorted({clock for found in joins.values() for clock in found}):
        for (number, operand), length in _measured(timeline, clock).items():
            if clock in joins[number]:
                longest[number, operand] = max(longest[number, operand], length)
    return [Join(number, operand, length) for (number, operand), length in longest.items()]


def clocks(program: Program, join: int) -> list[int]:
    """The copies where the ways of a join's operands part, without those that lie downstream of another.

    Ways part at a copy if they meet in no primitive before the join, that is, if none but the join is on all of them.
    """
    consumers = {stream: number for number, node in enumerate(program.nodes) for stream in node.inputs}
    # For each node that leads to the join: the first node that all its ways to the join have in common, and how many
    # such nodes follow one another to the join.
    meets, depth = {join: join}, {join: 0}
    for number in range(join - 1, -1, -1):
        nexts = {consumers[stream] for stream in program.nodes[number].outputs if stream in consumers} & depth.keys()
        if nexts:
            meets[number] = _common(sorted(nexts), meets, depth)
            depth[number] = depth[meets[number]] + 1
    parting = [
        number
        for number, node in enumerate(program.nodes)
        if node.op.kind == "copy"
        and meets.get(number) == join
        and all(consumers.get(stream) in depth for stream in node.outputs)
    ]
    return [copy for copy in parting if not any(_leads(program, other, copy) for other in parting if other < copy)]


def _common(nodes: Sequence[int], meets: Mapping[int, int], depth: Mapping[int, int]) -> int:
    """The first node that lies on all ways from some nodes to the join."""
    left = set(nodes)
    while len(left) > 1:
        farthest = max(left, key=lambda node: depth[node])
        left = left - {farthest} | {meets[farthest]}
    return left.pop()


def _leads(program: Program, start: int, end: int) -> bool:
    """Whether a node's results reach another node."""
    reached = set(program.nodes[start].outputs)
    for node in program.nodes[start + 1 : end]:
        if not reached.isdisjoint(node.inputs):
            reached.update(node.outputs)
    return not reached.isdisjoint(program.nodes[end].inputs)


def _measured(timeline: Timeline, clock: int) -> dict[tuple[int, int], int]:
    """The length of every queue downstream of a copy, on the clock of the stream that it copies."""
    program = timeline.program
    copied = {stream: timeline.streams[stream] for stream in program.nodes[clock].outputs}
    # Its clock ticks at every value.
    streams = {stream: Tokens(each.levels, np.cumsum(each.levels == 0)) for stream, each in copied.items()}
    found = {}
    for number, node in enumerate(program.nodes[clock + 1 :], clock + 1):
        if not any(stream in streams for stream in node.inputs):
            continue
        tokens = [streams.get(stream) or _at_once(timeline.streams[stream]) for stream in node.inputs]
        schedule = timeline.schedule(number, tokens)
        streams.update(zip(node.outputs, schedule.outputs, strict=True))
        for operand, taken in enumerate(schedule.taken):
            if node.inputs[operand] in streams:
                found[number, operand] = waiting(tokens[operand].values, taken)
    return found


def _at_once(tokens: Tokens) -> Tokens:
    return Tokens(tokens.levels, np.zeros_like(tokens.times))


def waiting(made: Ints, taken: Ints) -> int:
    """The largest number of values that are made and not taken, at the end of a tick; both are sorted."""
    if not len(made):
        return 0
    waiting_then = np.searchsorted(made, made, "right") - np.searchsorted(taken, made, "right")
    return int(waiting_then.max())
