"""Which function may be applied to which types of streams, by which structural primitives.

A `Rule` is one function (Map, Accum, Scan) or one routing (Partition, a Map on each branch, Merge) on streams that
inputs or other rules give; each operand is coerced by its path. Rules do not depend on values; the search decides what
to apply them to. Redundant rules are omitted: a function on each element gives the same whether its elements are
repeated, or a placeholder is put around them, before or after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, permutations, product
from typing import TypeVar

from pipeline.lms.embedded.lowering import Backend, route, zipped
from pipeline.synthesis.type_space import ONE, CoercionPath, TypeId, TypeSpace, joined
from step_runtime.base.errors import RuleError
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Dim, try_evaluate
from step_runtime.base.types import DType, Multihot, StreamType, STuple, components_of
from step_runtime.primitives import Accum, Flatten, Map, Primitive, Rules, Scan

_MOST_TYPES = 60
"""Types of streams that rules take, those of the least cost."""
_MOST_AT_ONCE = 30
_WANTED = 3
"""What is taken off the cost of a type that is wanted."""
_MOST_BITS = 4
_MOST_ORDERS = 120
"""The most orders of branches tried for one routing."""
_MOST_STRUCTURE = 8
_MOST_COUNTED = 5
"""The most structural primitives before one function, of one path so many at most."""
_MOST_SHAPES = 60

_MOST_MEETINGS = 400
"""The most ways for streams to meet at one shape, for one function; the shortest paths come first."""
_MOST_RULES = 30_000

_COST = 2
"""The cost of a function or a routing, in units of a choice of path."""

_AGAIN = 2
"""What a function costs more that a landmark was reached with."""

S = TypeVar("S")


@dataclass(frozen=True)
class OrderedRouting:
    """The functions of the branches in the order of the index's bits (None: unchanged), and the one that merges."""

    branches: tuple[Fn | None, ...]
    merge: Fn


@dataclass(frozen=True)
class Rule:
    """One function, or one routing, whose index is the last operand; `cost` counts all primitives but Copies.

    A placeholder next to other dims is flattened at once, so that no streams differ only by it.
    """

    apply: Map | Accum | Scan | OrderedRouting
    operands: tuple[CoercionPath, ...]
    flatten: tuple[Flatten, ...]
    result: TypeId
    cost: int = field(compare=False)

    @property
    def fn(self) -> Fn:
        """The function, or the one that merges."""
        return self.apply.merge if isinstance(self.apply, OrderedRouting) else self.apply.fn

    def write(self, backend: Backend[S], streams: Sequence[S]) -> S:
        """The result on streams of the operands' source types."""
        return self.write_last(backend, [follow(backend, *pair) for pair in zip(self.operands, streams, strict=True)])

    def write_last(self, backend: Backend[S], parts: Sequence[S]) -> S:
        """The result on coerced operands."""
        stream = self._applied(backend, parts)
        for op in self.flatten:
            stream = backend.add(op, stream)[0]
        return stream

    def _applied(self, backend: Backend[S], parts: Sequence[S]) -> S:
        if isinstance(self.apply, Map):
            return backend.add(self.apply, *parts)[0]
        if not isinstance(self.apply, OrderedRouting):
            return backend.add(self.apply, zipped(backend, parts))[0]
        return route(backend, self.apply.branches, self.apply.merge, parts)


def follow(backend: Backend[S], path: CoercionPath, stream: S) -> S:
    """The stream at the end of a path."""
    for op in path.ops:
        stream = backend.add(op, stream)[0]
    return stream


class _TypeBackend:
    """Applies rules to types only."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def add(self, op: Primitive, *inputs: StreamType) -> tuple[StreamType, ...]:
        """The types of the results."""
        return op.infer(inputs, self._rules)


class Rulebook:
    """All rules of a task.

    `types` are those of inputs and of what rules give, `into` the rules by the type of their result; `cheapest` has
    the least cost of a stream of each type.

    Args:
        space: The types.
        wanted: Whether a type is likely to occur in a program; rules on such streams are listed before others.
        check: Called often; it may raise, which ends the listing.
    """

    def __init__(
        self,
        space: TypeSpace,
        wanted: Callable[[StreamType], bool] = lambda type_: False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.space = space
        self._check = check
        self._backend = _TypeBackend(Rules(space.scope.sizes))
        self.types: list[TypeId] = list(dict.fromkeys(space.inputs))
        self.rules: dict[Rule, None] = {}
        self.cheapest: dict[TypeId, int] = {}
        self._served: frozenset[Fn] = frozenset()
        start = dict.fromkeys(space.inputs, 0)
        sources: dict[TypeId, None] = {}
        new = list(self.types)
        while new and len(sources) < _MOST_TYPES and len(self.rules) < _MOST_RULES:
            sources |= dict.fromkeys(new)
            for rule in list(islice(self._found(list(sources), frozenset(new)), _MOST_RULES)):
                self.rules.setdefault(rule)
                if rule.result not in self.types:
                    self.types.append(rule.result)
            self.start_from(start)
            open_ = [type_ for type_ in self.types if type_ not in sources]
            new = sorted(open_, key=lambda type_: self.cheapest[type_] - _WANTED * wanted(space.types[type_]))
            new = new[: min(_MOST_AT_ONCE, _MOST_TYPES - len(sources))]
        self.into: dict[TypeId, list[Rule]] = {type_: [] for type_ in self.types}
        for rule in self.rules:
            self.into[rule.result].append(rule)

    def cost(self, rule: Rule) -> int:
        """What a rule costs in this round: more for a function that has served already."""
        return rule.cost + _AGAIN * (rule.fn in self._served)

    def remaining(self, outputs: Iterable[TypeId], others: Iterable[TypeId] = ()) -> dict[TypeId, int]:
        """For each type the least cost from there to some goal; types without a way there are absent.

        Args:
            outputs: Goals that a path may lead to.
            others: Goals that only a stream of the very type reaches.
        """
        wanted = [self.space.types[goal] for goal in outputs]
        left: dict[TypeId, int] = dict.fromkeys(others, 0)
        for type_ in self.types:
            paths = [path for goal in wanted if (path := self.space.path(type_, goal)) is not None]
            if paths:
                left.setdefault(type_, min(path.cost for path in paths))
        changed = True
        while changed:
            changed = False
            for rule in self.rules:
                if rule.result not in left or any(path.source not in self.cheapest for path in rule.operands):
                    continue
                total = left[rule.result] + self.cost(rule) + sum(self.cheapest[path.source] for path in rule.operands)
                for path in rule.operands:
                    cost = total - self.cheapest[path.source]
                    if cost < left.get(path.source, cost + 1):
                        left[path.source] = cost
                        changed = True
        return left

    def start_from(self, given: Mapping[TypeId, int], served: Iterable[Fn] = ()) -> None:
        """Sets the costs of a round.

        Args:
            given: The least cost of the streams to start from, by type.
            served: The functions that made them: a task mostly lists a function because a program needs it once.
        """
        self._served = frozenset(served)
        found = dict(given)
        changed = True
        while changed:
            changed = False
            for rule in self.rules:
                if all(path.source in found for path in rule.operands):
                    cost = self.cost(rule) + sum(found[path.source] for path in rule.operands)
                    if cost < found.get(rule.result, cost + 1):
                        found[rule.result] = cost
                        changed = True
        self.cheapest = found

    def _found(self, sources: Sequence[TypeId], new: frozenset[TypeId]) -> Iterator[Rule]:
        """Every rule on streams of some types that takes one of those that are new."""
        by_target: dict[DType, dict[tuple[Dim, ...], list[CoercionPath]]] = {}
        for type_ in sources:
            for path in self.space.paths(type_):
                by_target.setdefault(path.target.dtype, {}).setdefault(path.target.shape, []).append(path)
        fns = list(self.space.scope.fns.values())
        self._add_direct(fns, by_target)
        for fn in fns:
            for paths in _meetings(fn.input, by_target):
                if any(path.source in new for path in paths):
                    yield from self._made(_folds(fn, paths) if fn.stateful else _maps(fn, paths), paths)
        for merge in fns:
            if merge.stateful:
                yield from self._routings(merge, fns, by_target)

    def _add_direct(self, fns: Sequence[Fn], by_target: dict[DType, dict[tuple[Dim, ...], list[CoercionPath]]]) -> None:
        """Paths of inputs that are too long to be among all, to where another operand of a function is at low cost."""
        for fn in fns:
            parts = dict.fromkeys(components_of(fn.input))
            near = {
                shape
                for part in parts
                for shape, paths in by_target.get(part, {}).items()
                if any(path.cost <= 1 for path in paths)
            }
            for part in parts if len(parts) > 1 else ():
                shapes = by_target.setdefault(part, {})
                for shape in sorted(near, key=len)[:_MOST_SHAPES]:
                    for source in dict.fromkeys(self.space.inputs):
                        known = any(path.source == source for path in shapes.get(shape, ()))
                        path = None if known else self.space.direct(source, StreamType(part, shape))
                        if path is not None:
                            shapes.setdefault(shape, []).append(path)

    def _made(
        self, applications: Iterable[Map | Accum | Scan | OrderedRouting], paths: tuple[CoercionPath, ...]
    ) -> Iterator[Rule]:
        self._check()
        if sum(min(len(path.ops), _MOST_COUNTED) for path in paths) > _MOST_STRUCTURE:
            return
        for apply in applications:
            try:
                made = Rule(apply, paths, (), -1, 0).write_last(self._backend, [path.target for path in paths])
            except RuleError:
                continue
            flatten = tuple(_without_placeholder(made.shape))
            for op in flatten:
                made = self._backend.add(op, made)[0]
            if self.space.allowed(made):
                yield Rule(apply, paths, flatten, self.space.intern(made), _COST + sum(path.cost for path in paths))

    def _routings(
        self, merge: Fn, fns: Sequence[Fn], by_target: dict[DType, dict[tuple[Dim, ...], list[CoercionPath]]]
    ) -> Iterator[Rule]:
        maps = [fn for fn in fns if not fn.stateful and fn.output == merge.input]
        for dtype in dict.fromkeys([*(fn.input for fn in maps), merge.input]):
            branches: list[Fn | None] = [fn for fn in maps if fn.input == dtype]
            if dtype == merge.input:
                branches.append(None)
            for data in _meetings(dtype, by_target):
                if _common_repeats(data) or _has_placeholder(data[0].target.shape):
                    continue
                for bits, index in _indices(data[0].target, by_target, self.space.scope.sizes):
                    orders = permutations(branches, bits) if len(branches) >= bits else product(branches, repeat=bits)
                    routings = [OrderedRouting(order, merge) for order in islice(orders, _MOST_ORDERS) if any(order)]
                    yield from self._made(routings, (*data, index))


def _meetings(
    dtype: DType, by_target: dict[DType, dict[tuple[Dim, ...], list[CoercionPath]]]
) -> Iterator[tuple[CoercionPath, ...]]:
    """Plans for streams of one shape that together hold the type, from left to right."""
    parts = components_of(dtype)

    def rest(start: int, shape: tuple[Dim, ...] | None) -> Iterator[tuple[CoercionPath, ...]]:
        if start == len(parts):
            yield ()
            return
        for end in range(start + 1, len(parts) + 1):
            shapes = by_target.get(joined(parts[start:end]), {})
            for own, paths in shapes.items() if shape is None else [(shape, shapes.get(shape, []))]:
                ways = ((path, *others) for others in list(rest(end, own)) for path in paths)
                yield from islice(ways, _MOST_MEETINGS if paths else 0)

    return rest(0, None)


def _indices(
    data: StreamType, by_target: dict[DType, dict[tuple[Dim, ...], list[CoercionPath]]], sizes: Mapping[str, int]
) -> Iterator[tuple[int, CoercionPath]]:
    """Plans for streams that can route the data, and the number of their bits."""
    for dtype, shapes in by_target.items():
        bits = try_evaluate(dtype.length, sizes) if isinstance(dtype, Multihot) else None
        if bits is None or bits > _MOST_BITS:
            continue
        for inner in range(len(data.shape)):
            for path in shapes.get(data.shape[inner:], ()):
                if not path.repeated:
                    yield bits, path


def _maps(fn: Fn, paths: tuple[CoercionPath, ...]) -> Iterator[Map]:
    if len(paths) == 1 and paths[0].ops and paths[0].steps[0].dtype == paths[0].target.dtype:
        return
    if _only_here(fn, _common_repeats(paths), paths[0].target.shape) and not _has_placeholder(paths[0].target.shape):
        yield Map(fn)


def _folds(fn: Fn, paths: tuple[CoercionPath, ...]) -> Iterator[Accum | Scan]:
    shape = paths[0].target.shape
    repeated = _common_repeats(paths)
    for b in range(1, len(shape)):
        if _has_placeholder(shape) and (ONE in shape[:-1] or b < len(shape) - 1):
            continue
        if _only_here(fn, repeated, shape[b:]):
            yield Accum(fn, b)
        if _only_here(fn, repeated - set(shape[:b]), shape):
            yield Scan(fn, b)


def _only_here(fn: Fn, repeated: frozenset[Dim], shape: Sequence[Dim]) -> bool:
    """Whether a function's operands have to be repeated: its result can't be repeated in their place.

    A tuple can only be repeated along the inner dims, as it is not buffered.
    """
    if not repeated:
        return True
    inner = 0
    while inner < len(shape) and shape[inner] in repeated:
        inner += 1
    return isinstance(fn.output, STuple) and not repeated <= set(shape[:inner])


def _common_repeats(paths: Sequence[CoercionPath]) -> frozenset[Dim]:
    return frozenset.intersection(*(path.repeated for path in paths))


def _has_placeholder(shape: Sequence[Dim]) -> bool:
    """Whether there is a dim of 1 among others."""
    return ONE in shape and len(shape) > 1


def _without_placeholder(shape: Sequence[Dim]) -> Iterator[Flatten]:
    dims = list(shape)
    while _has_placeholder(dims):
        place = dims.index(ONE)
        del dims[place]
        yield Flatten((max(place, 1),))
