"""The chip event by event: slow, obvious, and independent of the rules on time that it holds.

Every primitive is a process that reads one token at a time from the queues of its operands, and writes one at a time.
A process sleeps until a token comes, or until its function is done. Queues hold any number of tokens; what each holds
at the end of a tick is noted.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from step_runtime import primitives as p
from step_runtime.base.shapes import Sizes, evaluate, torch_shape
from step_runtime.base.types import Buffer, StreamType
from step_runtime.program.graph import Node, Program
from tests.support.tokens.sequence import Token, Tokens, level_of, split

Levels: TypeAlias = list[int]
Process: TypeAlias = Generator["int | Queue", None, None]
"""Yields a queue to wait until it holds a token, or a time to sleep until."""


@dataclass
class Queue:
    """The tokens that wait between two primitives, by level."""

    tokens: deque[int] = field(default_factory=deque)
    waiting: Process | None = None
    made: int = 0
    taken: int = 0
    longest: int = 0


class World:
    """The processes, the clock, and what every stream carried when."""

    def __init__(self) -> None:
        self.now = 0
        self.emitted: dict[int, list[tuple[int, int]]] = {}
        self.queues: dict[int, list[Queue]] = {}
        self._agenda: list[tuple[int, int, Process]] = []
        self._number = 0

    def reader(self, stream: int) -> Queue:
        """A new queue at the end of a stream."""
        self.queues.setdefault(stream, []).append(Queue())
        return self.queues[stream][-1]

    def emit(self, stream: int, level: int) -> None:
        """A token on a stream, now."""
        self.emitted.setdefault(stream, []).append((level, self.now))
        for queue in self.queues.get(stream, []):
            queue.tokens.append(level)
            queue.made += level == 0
            if queue.waiting is not None:
                self._at(self.now, queue.waiting)
                queue.waiting = None

    def take(self, queue: Queue) -> int:
        """The token at the head of a queue, which leaves it."""
        level = queue.tokens.popleft()
        queue.taken += level == 0
        return level

    def run(self, processes: Sequence[Process]) -> None:
        """Runs until nothing happens any more."""
        for process in processes:
            self._at(0, process)
        while self._agenda:
            time, _, process = heapq.heappop(self._agenda)
            if time > self.now:
                self._end_of_tick()
            self.now = time
            self._resume(process)
        self._end_of_tick()

    def _resume(self, process: Process) -> None:
        for wish in process:
            if isinstance(wish, int):
                if wish > self.now:
                    self._at(wish, process)
                    return
            elif not wish.tokens:
                wish.waiting = process
                return

    def _at(self, time: int, process: Process) -> None:
        self._number += 1
        heapq.heappush(self._agenda, (time, self._number, process))

    def _end_of_tick(self) -> None:
        for queue in (queue for queues in self.queues.values() for queue in queues):
            queue.longest = max(queue.longest, queue.made - queue.taken)


@dataclass
class Unit:
    """One primitive in the world: its operands' queues and what it may know."""

    world: World
    node: Node
    inputs: Sequence[StreamType]
    queues: list[Queue]
    sizes: Sizes
    cycles: int
    step: int
    marks: list[list[int]]
    """For a router, the streams that each index element chooses."""
    _last: int | None = None

    def process(self) -> Process:
        """What it does, token by token."""
        op = self.node.op
        behaviours: dict[type[p.Primitive], Callable[[], Process]] = {
            p.Accum: self.fold, p.Map: self.call, p.Zip: self.call, p.Scan: self.call, p.RepeatRef: self.repeat_ref,
            p.Partition: self.partition, p.Merge: self.merge,
        }  # fmt: skip
        return behaviours.get(type(op), self.reshape)()

    def put(self, level: int, output: int = 0) -> None:
        self.world.emit(self.node.outputs[output], level)

    def spaced(self, level: int) -> Process:
        """Emits a token, a value not until a step after the token before it."""
        if level == 0 and self._last is not None:
            yield self._last + self.step
        self._last = self.world.now
        self.put(level)

    def call(self) -> Process:
        """Map, Zip and Scan: as soon as all operands have a token, and one call at a time."""
        while True:
            yield from self.queues
            level, *_ = [self.world.take(queue) for queue in self.queues]
            if level == 0:
                yield self.world.now + self.cycles
            self.put(level)

    def fold(self) -> Process:
        while True:
            yield self.queues[0]
            level = self.world.take(self.queues[0])
            if level == 0:
                yield self.world.now + self.cycles
            elif level >= self.node.op.b:  # type: ignore[attr-defined]
                self.put(level - self.node.op.b)  # type: ignore[attr-defined]

    def repeat_ref(self) -> Process:
        data, reference = self.queues
        fresh = True
        while True:
            yield reference
            if fresh:
                yield data
                self.world.take(data)
                fresh = False
            level = self.world.take(reference)
            yield from self.spaced(level)
            fresh = level > 0

    def partition(self) -> Process:
        data, index = self.queues
        rank = self.inputs[0].rank - self.inputs[1].rank
        elements = iter(self.marks)
        fresh, chosen = True, list[int]()
        while True:
            yield data
            if fresh:
                yield index
                chosen = next(elements) if self.world.take(index) == 0 else []
                fresh = False
            level = self.world.take(data)
            if level == self.inputs[0].rank + 1:
                for output in range(len(self.node.outputs)):
                    self.put(rank + 1, output)
                return
            for output in chosen:
                self.put(level, output)
            fresh = level >= rank

    def merge(self) -> Process:
        *streams, index = self.queues
        rank = self.inputs[0].rank
        blank = levels_of(torch_shape(self.inputs[0].shape[:-1], self.sizes))
        elements = iter(self.marks)
        while True:
            yield index
            if index.tokens[0] > 0:
                level = self.world.take(index)
                yield from streams if level == self.inputs[-1].rank + 1 else ()
                self.put(level + rank)
                continue
            chosen = next(elements)
            if not chosen:
                self.world.take(index)
            fresh = True
            for stream in chosen:
                for _ in blank:
                    yield streams[stream]
                    if fresh:
                        self.world.take(index)
                        fresh = False
                    yield from self.folded(streams[stream], emits=stream == chosen[-1])
            for level in blank if not chosen else []:
                if level == 0:
                    yield self.world.now + self.step
                self.put(level)

    def folded(self, stream: Queue, *, emits: bool) -> Process:
        level = self.world.take(stream)
        if level == 0:
            yield self.world.now + self.cycles
        if emits:
            self.put(level)

    def reshape(self) -> Process:
        """Everything else: tokens in place of one token, without waiting but for repeated values."""
        rewrite = _rewriter(self.node.op, self.inputs[0], self.sizes)
        while True:
            yield self.queues[0]
            for level in rewrite(self.world.take(self.queues[0])):
                if isinstance(self.node.op, p.Repeat | p.Streamify):
                    yield from self.spaced(level)
                else:
                    for output in range(len(self.node.outputs)):
                        self.put(level, output)


def levels_of(shape: Sequence[int]) -> Levels:
    """An item's tokens by level, its closing included: dims outermost first."""
    if not shape:
        return [0]
    return levels_of(shape[1:]) * shape[0] + [len(shape)]


def _rewriter(op: p.Primitive, stream: StreamType, sizes: Sizes) -> Callable[[int], Levels]:
    counts: dict[int, int] = {}

    def rewrite(level: int) -> Levels:
        match op:
            case p.Promote(b=b):
                return [level + (level > b)] + [b + 1] * (level == b)
            case p.Flatten(L=dims):
                return [] if level in dims else [level - len(dims) * (level > dims[-1])]
            case p.Bufferize(a=a):
                return [level - a] if level >= a else []
            case p.Repeat(n=n):
                return [level + 1] if level else [0] * evaluate(n, sizes) + [1]
            case p.Streamify():
                dims = stream.dtype.dims if isinstance(stream.dtype, Buffer) else ()
                return [level + len(dims)] if level else levels_of(torch_shape(dims, sizes))
            case p.Reshape(L=dims, S=size):
                return _split(level, sorted(dims, reverse=True), evaluate(size, sizes), counts)
        return [level]

    return rewrite


def _split(level: int, dims: Sequence[int], size: int, counts: dict[int, int]) -> Levels:
    tokens = [level]
    for index in dims:
        result = []
        for token in tokens:
            result.append(token + (token > index))
            if token == index:
                counts[index] = counts.get(index, 0) + 1
                if counts[index] == size:
                    counts[index] = 0
                    result.append(index + 1)
        tokens = result
    return tokens


def simulate_events(
    program: Program,
    types: Sequence[StreamType],
    sizes: Sizes,
    marks: Mapping[int, list[list[int]]],
    *,
    given: Mapping[int, list[tuple[int, int]]],
    cycles: Sequence[int],
    step: int,
) -> World:
    """Runs the nodes on streams whose tokens come at given times; `given` has at least the inputs.

    Nodes all of whose results are given do not run.
    """
    world = World()
    units = []
    for number, node in enumerate(program.nodes):
        if not all(stream in given for stream in node.outputs):
            inputs = [types[stream] for stream in node.inputs]
            queues = [world.reader(stream) for stream in node.inputs]
            units.append(Unit(world, node, inputs, queues, sizes, cycles[number], step, marks.get(number, [])))
    sources = [_source(world, stream, tokens) for stream, tokens in given.items()]
    world.run([*sources, *(unit.process() for unit in units)])
    return world


def _source(world: World, stream: int, tokens: list[tuple[int, int]]) -> Process:
    for level, time in tokens:
        yield time
        world.emit(stream, level)


def spelled_levels(tokens: Tokens, rank: int) -> Levels:
    """The levels of a stream's tokens, every closing spelled out."""
    found: Iterator[Token] = split(tokens, rank)
    return [level_of(token) for token in found]


def parting_copies(program: Program, join: Node) -> list[int]:
    """The Copies that two ways lead from to the join without a primitive in common, the most upstream ones alone."""

    def ways(stream: int) -> Iterator[tuple[int, ...]]:
        """The nodes on each way from a stream to the join, the join excluded."""
        for number, node in enumerate(program.nodes):
            if stream in node.inputs:
                if node is join:
                    yield ()
                for output in node.outputs if node is not join else ():
                    yield from ((number, *rest) for rest in ways(output))

    parting = [
        number
        for number, node in enumerate(program.nodes)
        if isinstance(node.op, p.Copy)
        and any(
            not set(one) & set(other)
            for one, other in itertools.product(*(list(ways(stream)) for stream in node.outputs))
        )
    ]
    reached: dict[int, set[int]] = {copy: set(program.nodes[copy].outputs) for copy in parting}
    for node in program.nodes:
        for streams in reached.values():
            if streams.intersection(node.inputs):
                streams.update(node.outputs)
    return [
        copy
        for copy in parting
        if not any(program.nodes[copy].inputs[0] in reached[other] for other in parting if other != copy)
    ]
