"""Random well-typed programs on random data: every primitive, every element type, dims of 1, routed dims of 0.

A program grows move by move. A move picks streams that are still to be consumed, adds what it needs beside them
(an input, an index computed from the data) and is left out where it does not apply. A stream that is to be used
again goes through a Copy, so that every program keeps the affine rule.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random

import sympy

from step_runtime import primitives as p
from step_runtime.base.errors import RuleError
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Dim, evaluate
from step_runtime.base.types import Buffer, DType, Multihot, StreamType, STuple, components_of, layout
from step_runtime.program.graph import Node, Program
from step_runtime.tasks.scope import Scope
from tests.support.random_functions import Draws, random_fold, random_plain
from tests.support.tokens import Value

MOST_VALUES = 64
"""Bound on the values of one stream, routed dims taken as large as they can be."""
MOST_NUMBERS = 400
"""Bound on the numbers in those values."""

Ref = int
"""A stream of a program that is still growing."""


@dataclass(frozen=True)
class Case:
    """A program, its scope, and data for its inputs."""

    program: Program
    scope: Scope
    data: dict[str, Value]

    def primitives(self) -> Counter[str]:
        """How often each primitive occurs."""
        return Counter(node.op.name for node in self.program.nodes)


def random_case(rng: Random) -> Case:
    """A random program of one to sixteen moves."""
    grower = _Grower(rng)
    inputs = rng.randint(1, 3)
    while len(grower.data) < inputs:
        grower.add_input(grower.draws.stream())
    for _ in range(rng.randint(1, 16)):
        grower.move()
    return grower.finished()


@dataclass
class _Grower:
    rng: Random
    types: dict[Ref, StreamType] = field(default_factory=dict)
    free: list[Ref] = field(default_factory=list)
    data: dict[Ref, Value] = field(default_factory=dict)
    nodes: list[tuple[p.Primitive, tuple[Ref, ...], tuple[Ref, ...]]] = field(default_factory=list)
    fns: dict[str, Fn] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.draws = Draws(self.rng)
        self.sizes = self.draws.sizes
        self.bounds = dict(self.sizes)
        self.rules = p.Rules(self.sizes)

    # --- streams and nodes ---

    def new(self, stream: StreamType) -> Ref:
        ref = len(self.types)
        self.types[ref] = stream
        self.free.append(ref)
        return ref

    def add_input(self, stream: StreamType) -> Ref | None:
        """An input, unless it would be too large or the data decides its dims."""
        if not self.is_static(stream.shape) or not self.fits(stream):
            return None
        ref = self.new(stream)
        self.data[ref] = self.draws.data(stream)
        return ref

    def is_static(self, dims: Sequence[Dim]) -> bool:
        """Whether the sizes alone give the dims, so that a declaration may name them."""
        return all(symbol.name in self.sizes for dim in dims for symbol in dim.free_symbols)

    def fits(self, stream: StreamType) -> bool:
        layouts = [layout(element) for element in components_of(stream.dtype)]
        try:
            values = prod(evaluate(dim, self.bounds) for dim in stream.shape)
            numbers = sum(prod(evaluate(dim, self.bounds) for dim in dims) for dims in layouts)
        except RuleError:
            return False  # a part of a routed dim that its bound does not divide into
        return values <= MOST_VALUES and values * numbers <= MOST_NUMBERS

    def pick(self, suits: Callable[[StreamType], bool] = lambda stream: True) -> Ref | None:
        suitable = [ref for ref in self.free if suits(self.types[ref])]
        return self.rng.choice(suitable) if suitable else None

    def keep(self, ref: Ref) -> Ref:
        """A copy of the stream; the other copy takes its place."""
        one, other = self.add(p.Copy(), ref)
        self.free.remove(one)
        self.free.remove(other)
        self.free.insert(0, other)
        return one

    def use(self, ref: Ref) -> Ref:
        """The stream itself, to be consumed, or a copy of it."""
        if self.draws.chance(0.3):
            return self.keep(ref)
        if ref in self.free:
            self.free.remove(ref)
        return ref

    def add(self, op: p.Primitive, *inputs: Ref) -> list[Ref]:
        """The results of a primitive, which consumes its inputs."""
        outputs = op.infer([self.types[ref] for ref in inputs], self.rules)
        self.free = [ref for ref in self.free if ref not in inputs]
        refs = [self.new(output) for output in outputs]
        self.nodes.append((op, inputs, tuple(refs)))
        return refs

    def apply(self, op: p.Primitive, *inputs: Ref) -> list[Ref] | None:
        """As `add`, unless a result would be too large."""
        types = [self.types[ref] for ref in inputs]
        if not isinstance(op, p.Partition) and not all(map(self.fits, op.infer(types, p.Rules(self.sizes)))):
            return None
        return self.add(op, *map(self.use, inputs))

    # --- functions ---

    def plain(self, source: DType, target: DType | None = None) -> Fn | None:
        return self.function(random_plain, source, target)

    def fold(self, source: DType, target: DType | None = None) -> Fn | None:
        target = source if target is None and self.draws.chance(0.6) else target
        return self.function(random_fold, source, target)

    def function(self, make: Callable[..., Fn], source: DType, target: DType | None) -> Fn | None:
        if not self.is_static([dim for element in components_of(source) for dim in layout(element)]):
            return None
        name = f"fn_{len(self.fns)}"
        self.fns[name] = make(self.rng, name, source, target or self.draws.dtype(), self.sizes)
        return self.fns[name]

    # --- moves ---

    def move(self) -> None:
        """One random move, where it applies."""
        moves = (
            self.map, self.map, self.zip, self.accum, self.scan, self.promote, self.flatten, self.reshape,
            self.repeat, self.repeat_ref, self.bufferize, self.streamify, self.route, self.route, self.gather,
            self.other,
        )  # fmt: skip
        self.rng.choice(moves)()

    def partner(self, ref: Ref) -> Ref | None:
        """Another stream of the same shape, or an input made for it."""
        shape = self.types[ref].shape
        others = [other for other in self.free if other != ref and self.types[other].shape == shape]
        return self.rng.choice(others) if others else self.add_input(StreamType(self.draws.dtype(), shape))

    def zip(self) -> None:
        ref = self.pick()
        other = self.partner(ref) if ref is not None else None
        if ref is not None and other is not None:
            self.apply(p.Zip(), ref, other)

    def map(self) -> None:
        ref = self.pick()
        if ref is None:
            return
        refs = [ref]
        for _ in range(self.rng.choice((0, 0, 0, 0, 1, 2))):
            other = self.partner(ref)
            if other is not None and other not in refs:
                refs.append(other)
        types = [self.types[ref].dtype for ref in refs]
        fn = self.plain(types[0] if len(types) == 1 else STuple(types))
        if fn is not None:
            self.apply(p.Map(fn), *refs)

    def accum(self) -> None:
        self.folding(p.Accum)

    def scan(self) -> None:
        self.folding(p.Scan)

    def folding(self, kind: Callable[[Fn, int], p.Primitive]) -> None:
        ref = self.pick(lambda stream: stream.rank > 0)
        fn = self.fold(self.types[ref].dtype) if ref is not None else None
        if ref is not None and fn is not None:
            self.apply(kind(fn, self.rng.randint(1, self.types[ref].rank)), ref)

    def promote(self) -> None:
        ref = self.pick(lambda stream: stream.rank < 5)
        if ref is not None:
            self.apply(p.Promote(self.rng.randint(0, self.types[ref].rank + 1)), ref)

    def flatten(self) -> None:
        ref = self.pick(lambda stream: stream.rank > 0)
        if ref is not None:
            first = self.rng.randint(1, self.types[ref].rank)
            last = self.rng.randint(first, self.types[ref].rank)
            self.apply(p.Flatten(tuple(range(first, last + 1))), ref)

    def reshape(self) -> None:
        ref = self.pick(lambda stream: stream.rank < 4)
        if ref is None:
            return
        shape = self.types[ref].shape
        indices = self.rng.sample(range(len(shape)), self.rng.choice((1, 1, min(2, len(shape)))))
        parts = [self.draws.dim(), sympy.Integer(1), sympy.Integer(2), shape[indices[0]]]
        size = self.rng.choice([part for part in parts if self.is_static([part])])
        if all(self.divides(size, shape[index]) for index in indices):
            self.apply(p.Reshape(tuple(indices), size), ref)

    def divides(self, size: Dim, dim: Dim) -> bool:
        # What a routed dim comes to is known only in the run, which may refuse it.
        return not self.is_static([dim]) or evaluate(dim, self.sizes) % evaluate(size, self.sizes) == 0

    def repeat(self) -> None:
        ref = self.pick(lambda stream: stream.rank < 4)
        if ref is not None:
            self.apply(p.Repeat(self.draws.dim()), ref)

    def repeat_ref(self) -> None:
        ref = self.pick(lambda stream: stream.rank < 4)
        if ref is None:
            return
        shape = self.types[ref].shape
        reference = self.pick(lambda stream: stream.shape[1:] == shape)
        if reference is None and self.draws.chance(0.5):
            reference = self.add_input(StreamType(self.draws.dtype(), (self.draws.dim(), *shape)))
        if reference is None and self.fits(StreamType(self.types[ref].dtype, (sympy.Integer(3), *shape))):
            [reference] = self.add(p.Repeat(self.rng.randint(1, 3)), self.keep(ref))
            ref = next(other for other in self.free if self.types[other].shape == shape)
        if reference is not None:
            self.apply(p.RepeatRef(), ref, reference)

    def bufferize(self) -> None:
        ref = self.pick(lambda stream: stream.rank > 0 and not isinstance(stream.dtype, STuple))
        if ref is not None:
            self.apply(p.Bufferize(self.rng.randint(1, self.types[ref].rank)), ref)

    def streamify(self) -> None:
        ref = self.pick(lambda stream: isinstance(stream.dtype, Buffer) and stream.rank < 4)
        if ref is not None:
            self.apply(p.Streamify(), ref)

    def other(self) -> None:
        ref = self.pick()
        if ref is not None:
            self.apply(self.rng.choice((p.Copy(), p.Identity())), ref)

    # --- routing ---

    def index_for(self, ref: Ref, rank: int) -> tuple[Ref, Ref | None]:
        """An index for the items of dim `rank` of a stream, and the stream, which may have been copied for it."""
        shape = self.types[ref].shape[rank:]
        hot = Multihot("float", self.rng.choice((self.draws.symbols["E"], sympy.Integer(self.rng.randint(1, 3)))))
        if self.is_static(shape) and self.draws.chance(0.7):
            return ref, self.add_input(StreamType(hot, shape))
        dtype = self.types[ref].dtype
        if rank and isinstance(dtype, STuple):
            return ref, None
        if not self.is_static(
            [dim for e in components_of(dtype) for dim in layout(e)] + list(self.types[ref].shape[:rank])
        ):
            return ref, None
        copy = self.keep(ref)
        ref = self.free[0]
        if rank:
            [copy] = self.add(p.Bufferize(rank), copy)
        fn = self.plain(self.types[copy].dtype, hot)
        return ref, self.add(p.Map(fn), copy)[0] if fn is not None else None

    def route(self) -> None:
        """Partition, something on every routed stream, and Merge; or Partition alone."""
        picked = self.pick()
        if picked is None:
            return
        rank = self.rng.randint(0, self.types[picked].rank)
        ref, index = self.index_for(picked, rank)
        if index is None or index == ref:
            return
        mine = self.types[index].dtype
        count = evaluate(mine.length, self.sizes) if isinstance(mine, Multihot) else 0
        width = self.rng.choice((mine.length, sympy.Integer(count))) if isinstance(mine, Multihot) else count
        kept = self.keep(index)
        index = self.free[0]
        routed = self.add(p.Partition(width), self.use(ref), self.use(index))
        most = prod(evaluate(dim, self.bounds) for dim in self.types[kept].shape)
        self.bounds |= {str(self.types[stream].shape[-1]): most for stream in routed}
        self.free.append(kept)
        if self.draws.chance(0.75):
            self.merge(self.between(routed), kept)

    def between(self, routed: list[Ref]) -> list[Ref]:
        """The streams after one or two primitives of the same kind on each, with functions of their own."""
        for _ in range(self.rng.choice((0, 1, 1, 2))):
            first = self.types[routed[0]]
            target = self.draws.dtype()
            ops = [self.step(first, target, kind) for kind in [self.rng.choice(_BETWEEN)] for _ in routed]
            known = [op for op in ops if op is not None]
            if len(known) == len(ops) and self.fits(known[0].infer([first], self.rules)[0]):
                routed = [self.add(op, ref)[0] for op, ref in zip(known, routed, strict=True)]
        return routed

    def step(self, stream: StreamType, target: DType, kind: str) -> p.Primitive | None:
        fn = self.plain(stream.dtype, target) if kind == "Map" else None
        fold = self.fold(stream.dtype, target) if kind in ("Scan", "Accum") else None
        if fn is not None:
            return p.Map(fn)
        if fold is not None and stream.rank:
            return p.Scan(fold, stream.rank) if kind == "Scan" else p.Accum(fold, 1)
        if kind == "Repeat":
            return p.Repeat(2)
        if kind == "Promote" and stream.rank < 4:
            return p.Promote(stream.rank)
        if kind == "Bufferize" and stream.rank and not isinstance(stream.dtype, STuple):
            return p.Bufferize(stream.rank)
        return p.Identity() if kind == "Identity" else None

    def merge(self, streams: Sequence[Ref], index: Ref) -> None:
        """The streams gathered by an index, which may come in another shape than it had."""
        fn = self.fold(self.types[streams[0]].dtype)
        if fn is None:
            return
        rank = self.types[index].rank
        if self.draws.chance(0.3):
            promote = p.Promote(self.rng.randint(0, rank + 1))
            [index] = self.add(p.Flatten((1,)) if rank and self.draws.chance(0.5) else promote, index)
        merge = p.Merge(fn)
        if self.fits(merge.infer([self.types[ref] for ref in (*streams, index)], self.rules)[0]):
            self.add(merge, *streams, index)

    def gather(self) -> None:
        """Merge of inputs that no Partition made; now and then they hold more or fewer slices than it takes."""
        shape = tuple(self.draws.dim() for _ in range(self.rng.choice((1, 1, 2))))
        inner = tuple(self.draws.dim() for _ in range(self.rng.choice((0, 0, 1, 2))))
        index = self.add_input(StreamType(Multihot("float", self.draws.symbols["E"]), shape))
        if index is None:
            return
        dtype, taken = self.draws.dtype(), self.data[index][0].flatten(0, -2).sum(0)
        counts = [int(count) + (self.draws.chance(0.05)) for count in taken]
        if min(counts) > 0:
            streams = [self.add_input(StreamType(dtype, (*inner, sympy.Integer(count)))) for count in counts]
            known = [stream for stream in streams if stream is not None]
            if len(known) == len(streams):
                self.merge(known, index)

    # --- the whole ---

    def finished(self) -> Case:
        """The program, its inputs numbered first; it returns what is left, or every stream there is."""
        order = [*self.data, *(ref for _, _, outputs in self.nodes for ref in outputs)]
        number = {ref: place for place, ref in enumerate(order)}
        names = {ref: f"I{place}" for place, ref in enumerate(self.data)}
        nodes = [
            Node(op, tuple(number[ref] for ref in inputs), tuple(number[ref] for ref in outputs))
            for op, inputs, outputs in self.nodes
        ]
        results = order if self.draws.chance(0.5) else self.rng.sample(self.free, len(self.free))
        program = Program(tuple(names.values()), tuple(nodes), tuple(number[ref] for ref in results))
        outputs = tuple(self.types[ref] for ref in results)
        inputs = {names[ref]: self.types[ref] for ref in self.data}
        scope = Scope(inputs, outputs, self.fns, self.draws.symbols, self.sizes)
        return Case(program, scope, {names[ref]: value for ref, value in self.data.items()})


_BETWEEN = ("Map", "Map", "Map", "Scan", "Accum", "Repeat", "Promote", "Bufferize", "Identity")
