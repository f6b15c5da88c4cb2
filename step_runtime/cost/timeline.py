"""When every token of every stream of a program comes, at given sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from step_runtime.base.measures import measure_at
from step_runtime.base.shapes import Sizes, torch_shape
from step_runtime.base.types import StreamType
from step_runtime.cost.chip import Chip
from step_runtime.primitives.token_times import Bits, Pace, Schedule, Tokens, spelled
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
        pace = Pace(bounds, cycles[-1], 1, routing.get(number))
        operands = [streams[stream] for stream in node.inputs]
        streams += node.op.schedule(operands, [types[stream] for stream in node.inputs], pace).outputs
    return Timeline(program, types, tuple(streams), bounds, tuple(cycles), routing)


def _input(stream: StreamType, sizes: Sizes, chip: Chip) -> Tokens:
    levels = spelled(torch_shape(stream.shape, sizes))
    port = chip.transfer(measure_at(sizes, chip.scalar_bits).bits(stream.dtype))
    return Tokens(levels, np.cumsum(levels == 0) * port)
