"""The dependences of one task: of its reference on the inputs, and of what a program under construction computes.

A program whose streams depend on the inputs as the reference does is likely the right one; a stream with a path that
no path of the reference continues is likely a wrong step. Both are heuristics that need no equal formulas, so they
also hold for loops, masks and calls of which only the name is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple, TypeAlias

from pipeline.lms.embedded.caches import BoundedCache
from pipeline.lms.embedded.dependence.paths import (
    CONSTANT,
    EXP,
    FALLS,
    LARGEST,
    MINUS,
    NOTHING,
    SIGNS,
    SUM,
    TIMES,
    UNSIGNED,
    Flow,
    Path,
    among,
    coarse,
    leaf,
    leaves,
    maximal,
    multiplied,
    orders,
    replaced,
    tagged,
    union,
    without,
)
from pipeline.lms.embedded.dependence.reader import FlowReader
from pipeline.lms.embedded.dependence.recurrences import solved
from pipeline.lms.embedded.dependence.vocabulary import STATE, Value, Vocabulary
from step_runtime.base.functions import Fn
from step_runtime.tasks.task import FnSpec, Task

Flows: TypeAlias = tuple[Flow, ...]
"""One flow for each component of a stream."""

_Unordered: TypeAlias = frozenset[tuple[int, int, int]]
"""Leaf, tags and partners of each path of a flow."""

_POSITION = 0
_ARGUMENT = 128
"""Leaves from this number on are the arguments of a function."""
_OTHER_PARTNERS = 0.25
"""How well a path fits one of the reference's that is multiplied by less."""
_OTHER_FIRST = 0.6
"""How well it fits one that is multiplied by the same in another order."""
_EXACT = 0.5
"""The part of exactly equal paths in a similarity; operations and partners of each leaf make up the rest."""


class Composed(NamedTuple):
    """How well some flows fit as a function's arguments, and the work, with their paths, by which it is counted."""

    work: tuple[object, ...]
    paths: int
    fit: float


class Dependences:
    """The dependences of one task, read on first access. Threads may share it; answers are cached.

    Attributes:
        inputs: The flows of the task's inputs.
        composed: What was found out about flows, by their numbers.
    """

    def __init__(self, task: Task, sizes: Mapping[str, int]) -> None:
        named = [spec.name for spec in (*task.inputs, *task.parameters)]
        data = {name: leaf(min(place + 1, CONSTANT - 1)) for place, name in enumerate(named)}
        words = Vocabulary(leaf(_POSITION))
        # The running sum of ones is a position.
        data |= {spec.name: words.position for spec in task.inputs if spec.data_gen == "torch.ones"}
        self._reader = FlowReader(words, data, sizes)
        self._helpers = _helpers(task.global_ or "", self._reader)
        env = dict(self._helpers)
        self._reader.met.clear()
        reference = [[words.flow(self._reader.run(code, env)) for code in spec.data_transform] for spec in task.outputs]
        met = self._reader.met.copy()
        summaries = {spec.func_name: self._summary(spec) for spec in task.fns}
        self._counting = {
            name for name, flows in summaries.items() if any(path.leaf == _POSITION for flow in flows for path in flow)
        }
        self._limit(reference, summaries, len(task.inputs))
        self.inputs: tuple[Flows, ...] = tuple((self._common(data[spec.name]),) for spec in task.inputs)
        self._visible: BoundedCache[Flow, Flow] = BoundedCache()
        self._outputs = [tuple(self._shown(self._common(flow)) for flow in flows) for flows in reference]
        self._passed: set[_Unordered] = {frozenset(), *(_unordered(self._shown(self._common(flow))) for flow in met)}
        self._passed_loosely = set(map(_loosened, self._passed))
        self._parts: BoundedCache[int, set[_Unordered]] = BoundedCache()
        """For some leaves, the parts of these that have no others."""
        self._resembling: BoundedCache[Flow, bool] = BoundedCache()
        self._summaries = {name: tuple(map(self._common, flows)) for name, flows in summaries.items()}
        self._wanted = self._by_leaf(flow for flows in self._outputs for flow in flows)
        self.composed: BoundedCache[tuple[object, ...], Composed] = BoundedCache()
        self._numbers: BoundedCache[Flows, int] = BoundedCache()
        self._count = itertools.count()
        self._applied: BoundedCache[tuple[object, ...], Flows] = BoundedCache()
        self._fits: BoundedCache[Flow, float] = BoundedCache()
        self._matches: BoundedCache[tuple[Flows, int], float] = BoundedCache()

    def number(self, flows: Flows) -> int:
        """A number for some flows; no others have it."""
        known = self._numbers.get(flows)
        return self._numbers.keep(flows, next(self._count)) if known is None else known

    def applied(self, fn: Fn, arguments: Flows) -> Flows:
        """What a function gives, once or folded, on arguments with these flows."""
        key = (fn.label, *arguments)
        known = self._applied.get(key)
        if known is None:
            given = {_ARGUMENT + place: flow for place, flow in enumerate(arguments)}
            known = tuple(replaced(flow, given) for flow in self._summaries[fn.label])
            self._applied.keep(key, known)
        return known

    def counts(self, fn: Fn) -> bool:
        """Whether a function gives positions of its own, as one that counts its steps."""
        return fn.label in self._counting

    @staticmethod
    def of_data(flow: Flow) -> bool:
        """Whether a flow leads from an input or a weight, not from positions alone."""
        return any(path.leaf != _POSITION for path in flow)

    def routed(
        self, merge: Fn, branches: Sequence[Fn | None], arguments: Flows, index: Flow, *, selects: bool = False
    ) -> Flows:
        """What a routing gives of these data by this index; `merge` folds what branches give, or what it selects."""
        given = [arguments if fn is None else self.applied(fn, arguments) for fn in branches]
        given = [(argument,) for argument in arguments] if selects else given
        joined = tuple(union(*flows) for flows in zip(*given, strict=True))
        chosen = leaves(index)
        data = tuple(tagged(flow, TIMES, chosen) for flow in joined)
        results = self.applied(merge, data)
        return tuple(union(flow, tagged(index, TIMES | UNSIGNED, leaves(flow))) for flow in results)

    def fits(self, flows: Flows) -> float:
        """How much of some flows the reference has, too, or more of it: 1 if each path can still become one of its."""
        return min(map(self._fit, flows))

    def _fit(self, flow: Flow) -> float:
        known = self._fits.get(flow)
        if known is None:
            parts = self._by_leaf((self._shown(flow),))
            fit = [sum(map(self._possible, paths)) / len(paths) for paths in parts.values()]
            known = self._fits.keep(flow, sum(fit) / len(fit) if fit else 1.0)
        return known

    def _possible(self, path: Path) -> float:
        """Whether a path of the reference passes at least what this one does, and is multiplied by at least as much."""
        best = 0.0
        for other in self._wanted.get(path.leaf, ()):
            if not path.tags & ~other.tags & ~SIGNS:
                if not path.partners & ~other.partners:
                    if not path.first & ~other.first:
                        return 1.0
                    best = _OTHER_FIRST
                best = max(best, _OTHER_PARTNERS)
        return best

    def passes(self, flows: Flows) -> float:
        """The share of some flows that a value has which the reference computes on its way."""
        return sum(_unordered(self._shown(flow)) in self._passed for flow in flows) / len(flows)

    def resembles(self, flows: Flows) -> float:
        """The share of some flows that are like a value that the reference computes on its way, or a part of one.

        Signs and sums do not count. A part of a value has only the leaves of the flow, as a product may be taken in
        another order.
        """
        return sum(map(self._resembles, flows)) / len(flows)

    def _resembles(self, flow: Flow) -> bool:
        known = self._resembling.get(flow)
        if known is None:
            own = _loosened(_unordered(self._shown(flow)))
            within = reduce(or_, (1 << start | partners for start, _, partners in own), 0)
            parts = self._parts.get(within)
            if parts is None:
                parts = self._parts.keep(within, {_within(flow, within) for flow in self._passed_loosely})
            known = self._resembling.keep(flow, own in parts)
        return known

    def similarity(self, results: Sequence[Flows]) -> float:
        """How similar the dependences of some streams are to those of the outputs, in order: from 0 to 1."""
        pairs = [
            _similarity(self._shown(one), other)
            for mine, wanted in zip(results, self._outputs, strict=True)
            for one, other in zip(mine, wanted, strict=True)
        ]
        return sum(pairs) / len(pairs)

    def matches(self, flows: Flows, output: int) -> float:
        """As `similarity`, of one stream and one output."""
        wanted = self._outputs[output]
        if len(wanted) != len(flows):
            return 0.0
        known = self._matches.get((flows, output))
        if known is None:
            alike = sum(map(_similarity, map(self._shown, flows), wanted)) / len(flows)
            known = self._matches.keep((flows, output), alike)
        return known

    def _summary(self, spec: FnSpec) -> Flows:
        """The flows of a function's results, of its arguments; states are solved for all steps of a fold."""
        count = len(spec.input_dtype) if isinstance(spec.input_dtype, list) else 1
        state = tuple(leaf(STATE + place) for place in range(len(spec.init or ())))
        arguments = tuple(leaf(_ARGUMENT + place) for place in range(count))
        env: dict[str, Value] = {**self._helpers, "input": arguments, "state": state}
        value = self._reader.run(spec.apply, env)
        width = len(spec.init or ()) or (len(spec.output_dtype) if isinstance(spec.output_dtype, list) else 1)
        parts = value if isinstance(value, tuple) and len(value) == width else (value,) * width
        results = tuple(map(self._reader.words.flow, parts))
        if not state:
            return results
        after = {STATE + place: flow for place, flow in enumerate(results)}
        found = solved(after, dict.fromkeys(after, NOTHING), self._reader.words.position)
        return tuple(found[STATE + place] for place in range(width))

    def _limit(self, reference: Iterable[Iterable[Flow]], summaries: Mapping[str, Flows], inputs: int) -> None:
        """Operations, weights and positions that only one side mentions say nothing: they are left out."""
        used = []
        for side in (reference, summaries.values()):
            paths = [path for flows in side for flow in flows for path in flow]
            tags, met = 0, 0
            for path in paths:
                tags, met = tags | path.tags, met | 1 << path.leaf | path.partners
            used.append((tags, met))
        (tags, met), (more_tags, more) = used
        self._tags = among(tags & more_tags & ~MINUS) | TIMES | SIGNS
        self._kept_tags = self._tags | among(tags & more_tags | MINUS | LARGEST | EXP)
        # Where the reference has no exponential of a largest element, one before an exponential only guards it.
        self._shifts = orders(LARGEST, EXP) & ~tags
        own = (1 << inputs + 1) - 2
        self._leaves = met & more & ((1 << _ARGUMENT) - 1) | own
        self._partners = self._leaves | ~((1 << _ARGUMENT) - 1)

    def _common(self, flow: Flow) -> Flow:
        found = set()
        for start, tags, partners, first in flow:
            if start >= _ARGUMENT or self._leaves >> start & 1:
                kept = self._kept_tags if multiplied(partners & self._partners) else self._kept_tags & ~TIMES
                found.add(Path(start, tags & kept, partners & self._partners, first & self._partners))
        return frozenset(found)

    def _shown(self, flow: Flow) -> Flow:
        """A flow with the operations that are compared."""
        key, known = flow, self._visible.get(flow)
        if known is None:
            seen, shifts = self._tags, self._shifts
            guards = frozenset([path for path in flow if path.tags & shifts])
            if guards:
                # A path in place of many may have passed both in other values.
                others = {path.leaf for path in flow - guards}
                bare = [path._replace(tags=without(path.tags, LARGEST)) for path in guards if path.leaf not in others]
                flow = flow.difference(guards).union(bare)
            # Only which positions are meant would tell the sign of a path from one.
            paths = [
                Path(start, (tags & seen & ~FALLS | UNSIGNED) if start == _POSITION else tags & seen, partners, first)
                for start, tags, partners, first in flow
            ]
            known = self._visible.keep(key, maximal(frozenset(paths)))
        return known

    @staticmethod
    def _by_leaf(flows: Iterable[Flow]) -> dict[int, list[Path]]:
        found: dict[int, list[Path]] = {}
        for flow in flows:
            for path in flow:
                found.setdefault(path.leaf, []).append(path)
        return found


def _similarity(one: Flow, other: Flow) -> float:
    """The similarity of two flows: leaf by leaf, of their paths, their operations and their partners."""
    if one == other:
        return 1.0
    mine, theirs = coarse(one), coarse(other)
    exact_mine, exact_theirs = _plain(one), _plain(other)
    total = 0.0
    for number in mine.keys() | theirs.keys():
        if number not in mine or number not in theirs:
            continue
        a, b = mine[number], theirs[number]
        exact = _overlap(exact_mine[number], exact_theirs[number])
        pairs = ((a.tags, b.tags), (a.partners, b.partners), (a.first, b.first))
        rest = sum(_bits_alike(*pair) for pair in pairs) / len(pairs)
        total += _EXACT * exact + (1 - _EXACT) * rest
    count = len(mine.keys() | theirs.keys())
    return total / count if count else 1.0


def _loosened(flow: _Unordered) -> _Unordered:
    """A flow without signs and sums."""
    return frozenset([(start, without(tags, SIGNS | SUM), partners) for start, tags, partners in flow])


def _within(flow: _Unordered, leaves: int) -> _Unordered:
    """The part of a flow that has only these leaves."""
    return frozenset([(start, tags, partners & leaves) for start, tags, partners in flow if leaves >> start & 1])


def _unordered(flow: Flow) -> _Unordered:
    """A flow that does not say what is multiplied first: programs may do so in another order."""
    return frozenset([(path.leaf, path.tags, path.partners) for path in flow])


def _plain(flow: Flow) -> dict[int, set[int]]:
    """The operations of each leaf's paths."""
    found: dict[int, set[int]] = {}
    for path in flow:
        found.setdefault(path.leaf, set()).add(path.tags)
    return found


def _overlap(one: set[int], other: set[int]) -> float:
    return len(one & other) / len(one | other)


def _bits_alike(one: int, other: int) -> float:
    both = (one | other).bit_count()
    return (one & other).bit_count() / both if both else 1.0


def _helpers(code: str, reader: FlowReader) -> dict[str, Value]:
    """The names that `global` binds."""
    env: dict[str, Value] = {}
    reader.run(code, env)
    return env
