"""A program's cost at given sizes: memory, traffic, operations, time and the length of its queues.

See `docs/cost.md` for every rule with its unit; memory and traffic are those of STeP, Section 4.2 (arXiv 2511.07776).
Amounts of data are counted in bits, as an element of a Multihot takes one, and reported in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Sizes, is_routed
from step_runtime.base.types import StreamType
from step_runtime.base.units import FIGURES, Figure, Measure
from step_runtime.cost.chip import DEFAULT_CHIP, Chip
from step_runtime.cost.timeline import Routing, Timeline, queues, timeline
from step_runtime.program.graph import Program, StreamId


@dataclass(frozen=True)
class NodeCost:
    """The cost of one primitive.

    Attributes:
        memory: Bits that it holds on chip.
        operations: Of all its calls together.
        busy: Cycles in which its function runs.
        added: Cycles that it adds to the critical path; 0 off the path.
    """

    memory: int
    operations: int
    busy: int
    added: int


@dataclass(frozen=True)
class QueueCost:
    """The queue before one operand of a join, given by its number and place: elements that wait at most, and bits."""

    node: int
    operand: int
    stream: StreamId
    length: int
    bits: int


@dataclass(frozen=True)
class Spill:
    """Data that does not fit on the chip and is kept off it.

    Attributes:
        node: The number of the primitive that holds it, or of the join before which it waits.
        operand: The operand's place where it is a queue, else None.
        bits: What it would take on chip.
        moved: The bits that are written and read off chip instead, over the whole run.
    """

    node: int
    operand: int | None
    bits: int
    moved: int


@dataclass(frozen=True)
class Cost:
    """The cost of a program at given sizes.

    Attributes:
        sizes: The value of every symbol, or of those that a reader is shown.
        memory: Bytes on chip: what primitives hold, parameters, and the queues; without what is spilled.
        staging: Bytes of one element of every input and result, which transfers pass through; not part of `memory`.
        traffic: Bytes between chip and memory: inputs, parameters and results once, spills written and read.
        loaded: Of these, the bytes of inputs and parameters.
        tile: Bytes of the largest element of an input.
        parameters: Bytes of the parameters that the program's functions hold on chip; part of `memory`.
        operations: Of all functions.
        time: Cycles until the last token has come and all traffic is done.
        transfer: Cycles that the traffic takes.
        queue: Elements in the longest queue.
        bounded: Whether some dim depends on the data and counts as its upper bound.
        nodes: By the program's nodes.
        queues: Of the joins' operands that ever wait, in program order.
        spills: What does not fit, the largest first.
        path: The critical path: nodes from an input to the last token; empty if the off-chip traffic takes longer.
    """

    sizes: Mapping[str, int]
    memory: float
    staging: float
    traffic: float
    loaded: float
    tile: float
    parameters: float
    operations: int
    time: int
    transfer: int
    queue: int
    bounded: bool
    nodes: tuple[NodeCost, ...]
    queues: tuple[QueueCost, ...]
    spills: tuple[Spill, ...]
    path: tuple[int, ...]

    def figure(self, name: Figure) -> float:
        """One of the five figures."""
        value: float = getattr(self, name)
        return value

    def figures(self) -> dict[Figure, float]:
        """All five figures."""
        return {name: self.figure(name) for name in FIGURES}


def in_bytes(bits: int) -> float:
    """Bits as bytes: an int where they are whole."""
    return bits // 8 if bits % 8 == 0 else bits / 8


def estimate(
    program: Program,
    types: Sequence[StreamType | None],
    sizes: Sizes,
    operations: Callable[[Fn], int],
    chip: Chip = DEFAULT_CHIP,
    routing: Routing | None = None,
    parameters: int = 0,
) -> Cost:
    """The cost of a checked program.

    Args:
        program: The program.
        types: The type of every stream.
        sizes: The value of every symbol.
        operations: The operations of one call of a function.
        chip: The chip.
        routing: Which streams each index element chooses, by node; where it is absent, dims that depend on the data
            count as their upper bounds.
        parameters: Bits of the parameters that its functions read, which are loaded once and held on chip.

    Raises:
        TaskCodeError: As `operations`.
    """
    known = [stream for stream in types if stream is not None]
    per_call = [sum(map(operations, node.op.functions())) for node in program.nodes]
    timed = timeline(program, known, sizes, per_call.__getitem__, chip, routing or {})
    measure = Measure(timed.sizes, chip.scalar_bits)
    waiting = _queues(timed, measure)
    spills = _spills(timed, measure, waiting, chip)
    off_chip = {(spill.node, spill.operand) for spill in spills}
    added = dict(path := timed.path())
    nodes = []
    memory = parameters + sum(queue.bits for queue in waiting if (queue.node, queue.operand) not in off_chip)
    for number, node in enumerate(program.nodes):
        inputs, outputs = _operands(timed, number)
        calls = node.op.calls(inputs, outputs, measure)
        held = 0 if (number, None) in off_chip else node.op.memory(inputs, outputs, measure)
        memory += held
        nodes.append(NodeCost(held, calls * per_call[number], calls * timed.cycles[number], added.get(number, 0)))
    loaded, stored, staging, tile = _off_chip(timed, measure)
    loaded += parameters
    transfers = loaded + stored + sum(spill.moved for spill in spills)
    transfer_time = chip.loading(transfers, tile)
    return Cost(
        sizes=dict(sizes),
        memory=in_bytes(memory),
        staging=in_bytes(staging),
        traffic=in_bytes(transfers),
        loaded=in_bytes(loaded),
        tile=in_bytes(tile),
        parameters=in_bytes(parameters),
        operations=sum(node.operations for node in nodes),
        time=max(timed.end, transfer_time),
        transfer=transfer_time,
        queue=max((queue.length for queue in waiting), default=0),
        bounded=not routing and any(is_routed(dim) for stream in known for s in stream.shape for dim in s.free_symbols),
        nodes=tuple(nodes),
        queues=tuple(waiting),
        spills=tuple(spills),
        path=() if transfer_time > timed.end else tuple(number for number, _ in path),
    )


def off_chip_streams(program: Program) -> list[StreamId]:
    """The inputs that the program reads, and its results; an input that it returns is both."""
    read = program.consumers().keys() | set(program.results)
    return [number for number in range(len(program.inputs)) if number in read] + list(program.results)


def _operands(timed: Timeline, number: int) -> tuple[list[StreamType], list[StreamType]]:
    node = timed.program.nodes[number]
    return [timed.types[stream] for stream in node.inputs], [timed.types[stream] for stream in node.outputs]


def _off_chip(timed: Timeline, measure: Measure) -> tuple[int, int, int, int]:
    """The bits of the inputs, of the results, of one element of each, and of an input's largest element."""
    streams, count = off_chip_streams(timed.program), len(timed.program.results)
    elements = [measure.bits(timed.types[number].dtype) for number in streams]
    totals = [measure.elements(timed.types[number]) * bits for number, bits in zip(streams, elements, strict=True)]
    inputs = len(streams) - count
    return sum(totals[:inputs]), sum(totals[inputs:]), sum(elements), max(elements[:inputs], default=0)


def _queues(timed: Timeline, measure: Measure) -> list[QueueCost]:
    found = []
    for join in queues(timed):
        if join.length:
            stream = timed.program.nodes[join.node].inputs[join.operand]
            bits = join.length * measure.bits(timed.types[stream].dtype)
            found.append(QueueCost(join.node, join.operand, stream, join.length, bits))
    return found


def _spills(timed: Timeline, measure: Measure, waiting: Sequence[QueueCost], chip: Chip) -> list[Spill]:
    """What is kept off chip: the largest first, until the rest fits."""
    if chip.sram is None:
        return []
    held = []
    for number, node in enumerate(timed.program.nodes):
        inputs, outputs = _operands(timed, number)
        moved = node.op.moved(inputs, outputs, measure)
        held.append(Spill(number, None, node.op.memory(inputs, outputs, measure), moved))
    for queue in waiting:
        stream = timed.types[queue.stream]
        moved = 2 * measure.elements(stream) * measure.bits(stream.dtype)
        held.append(Spill(queue.node, queue.operand, queue.bits, moved))
    held.sort(key=lambda each: -each.bits)
    left = sum(each.bits for each in held)
    spilled = []
    for each in held:
        if left <= 8 * chip.sram:
            break
        spilled.append(each)
        left -= each.bits
    return spilled
