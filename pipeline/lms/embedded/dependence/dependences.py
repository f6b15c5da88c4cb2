"""The dependences of one task: of its reference on the inputs, and of what a program under construction computes.

A program whose streams depend on the inputs as the reference does is likely the right one; a stream with a path that
no path of the reference continues is likely a wrong step. Both are heuristics that need no equal formulas, so they
also hold for loops, masks and calls of which only the name is known.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from pipeline.lms.embedded.caches import BoundedCache
from pipeline.lms.embedded.dependence.paths import (
    ANYTHING,
    EXP,
    LARGEST,
    LOG,
    LOOPED,
    MINUS,
    NOTHING,
    SIGNS,
    TIMES,
    UNSIGNED,
    ZERO,
    Flow,
    Path,
    among,
    coarse,
    factors,
    is_largest,
    is_top,
    leaf,
    leaves,
    nonlinear,
    orders,
    permitted,
    replaced,
    simplified,
    tagged,
    union,
)
from pipeline.lms.embedded.dependence.reader import FlowReader
from pipeline.lms.embedded.dependence.recurrences import solved
from pipeline.lms.embedded.dependence.vocabulary import ARGUMENT, STATE, Value, Vocabulary
from step_runtime.base.functions import Fn
from step_runtime.tasks.task import FnSpec, Task

Flows: TypeAlias = tuple[Flow, ...]
"""One flow for each component of a stream."""

_POSITION = 0
_OTHER_PARTNERS = 0.25
"""How well a path fits one of the reference's that is multiplied by less."""
_OTHER_FIRST = 0.6
"""How well it fits one that is multiplied by the same in another order."""
_VAGUELY = 0.9
"""The similarity of leaves of which only equal partners are known."""
_EXPONENTIAL = EXP | LOG
_EXACT = 0.5
"""The part of exactly equal paths in a similarity; operations and partners of each leaf make up the rest."""


class _Expected(NamedTuple):
    """A flow of the reference, and the leaves, as bits, of which only partners are compared."""

    flow: Flow
    vague: int


class Composed(NamedTuple):
    """How well some flows fit as a function's arguments, and the work by which a sample counts finding it."""

    work: tuple[object, ...]
    fit: float


class Dependences:
    """The dependences of one task, read on first access. Threads may share it; answers are cached.

    Attributes:
        inputs: The flows of the task's inputs.
        composed: What samples found out about flows, by their numbers.
    """

    def __init__(self, task: Task, sizes: Mapping[str, int]) -> None:
        named = [spec.name for spec in (*task.inputs, *task.parameters)]
        data = {name: leaf(min(place + 1, ARGUMENT - 1)) for place, name in enumerate(named)}
        words = Vocabulary(leaf(_POSITION))
        # The running sum of ones is a position.
        data |= {spec.name: words.position for spec in task.inputs if spec.data_gen == "torch.ones"}
        self._reader = FlowReader(words, data, sizes)
        self._helpers = _helpers(task.global_ or "", self._reader)
        references = self._references(task)
        summaries = {spec.func_name: self._summary(spec) for spec in task.fns}
        everything = [flows for reference in references for flows in reference]
        self._limit(everything, summaries, len(task.inputs))
        self.inputs: tuple[Flows, ...] = tuple((self._common(data[spec.name]),) for spec in task.inputs)
        self._visible: BoundedCache[Flow, Flow] = BoundedCache()
        self._outputs = [
            [tuple(map(self._expected, reference[place])) for reference in references]
            for place in range(len(task.outputs))
        ]
        self._summaries = {name: tuple(map(self._common, flows)) for name, flows in summaries.items()}
        told = (self._common(flow, self._told) for flows in everything for flow in flows)
        self._wanted = self._by_leaf(map(self._shown, told))
        self._specs = {spec.func_name: spec for spec in task.fns}
        self._guarded: BoundedCache[tuple[str, frozenset[int]], Flows] = BoundedCache()
        self._reading = threading.Lock()
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

    def _references(self, task: Task) -> list[list[list[Flow]]]:
        """For each way to read it, the reference's outputs, each with one flow for each component."""
        found = []
        for otherwise in (False, True):
            self._reader.otherwise, self._reader.met_other = otherwise, False
            env = dict(self._helpers)
            codes = [spec.data_transform for spec in task.outputs]
            found.append([[self._reader.words.flow(self._reader.run(code, env)) for code in each] for each in codes])
            if not self._reader.met_other:
                break
        self._reader.otherwise = False
        return found

    def _expected(self, flow: Flow) -> _Expected:
        return _Expected(self._shown(self._common(flow)), self._vague(flow))

    def applied(self, fn: Fn, arguments: Flows) -> Flows:
        """What a function gives, once or folded, on arguments with these flows."""
        key = (fn.label, *arguments)
        known = self._applied.get(key)
        if known is None:
            given = {ARGUMENT + place: flow for place, flow in enumerate(arguments)}
            known = tuple(replaced(flow, given) for flow in self._summary_for(fn.label, arguments))
            self._applied.keep(key, known)
        return known

    def routed(self, merge: Fn, branches: Sequence[Fn | None], arguments: Flows, index: Flow) -> Flows:
        """What a routing gives of these data by this index; `merge` folds what its branches give."""
        given = [arguments if fn is None else self.applied(fn, arguments) for fn in branches]
        joined = tuple(union(*flows) for flows in zip(*given, strict=True))
        chosen, first = leaves(index), factors(index)
        data = tuple(tagged(flow, TIMES, chosen, first) for flow in joined)
        results = self.applied(merge, data)
        return tuple(union(flow, tagged(index, TIMES | UNSIGNED, leaves(flow), factors(flow))) for flow in results)

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
        # A product that is written at once has no earlier values of its own.
        partners = path.partners & ~(1 << path.leaf) if path.tags & LOOPED else path.partners
        for other in self._wanted.get(path.leaf, ()):
            if not path.tags & ~other.tags:
                if not partners & ~other.partners:
                    if not path.first & partners & ~other.first:
                        return 1.0
                    best = _OTHER_FIRST
                best = max(best, _OTHER_PARTNERS)
            elif path.tags & LARGEST and other.tags & EXP and is_top(path.tags):
                return 1.0  # It may shift the exponents.
        return best

    def similarity(self, results: Sequence[Flows]) -> float:
        """How similar the dependences of some streams are to those of the outputs, in order: from 0 to 1."""
        pairs = [value for place, flows in enumerate(results) for value in self._alike(flows, place)]
        return sum(pairs) / len(pairs)

    def matches(self, flows: Flows, output: int) -> float:
        """As `similarity`, of one stream and one output."""
        if len(self._outputs[output][0]) != len(flows):
            return 0.0
        known = self._matches.get((flows, output))
        if known is None:
            known = self._matches.keep((flows, output), sum(self._alike(flows, output)) / len(flows))
        return known

    def _alike(self, flows: Flows, output: int) -> Sequence[float]:
        """The similarity of each component to that of an output, by the way to read it that fits best."""
        shown = tuple(map(self._shown, flows))
        ways = (tuple(map(_similarity, shown, expected)) for expected in self._outputs[output])
        return max(ways, key=sum)

    def _summary_for(self, label: str, arguments: Flows) -> Flows:
        """The flows of a function's results, where it matters which of its arguments are largest elements."""
        plain = self._summaries[label]
        if not any(path.tags & _EXPONENTIAL for flow in plain for path in flow):
            return plain
        largest = frozenset(place for place, flow in enumerate(arguments) if is_largest(flow))
        if not largest:
            return plain
        key = (label, largest)
        known = self._guarded.get(key)
        if known is None:
            with self._reading:
                summary = self._summary(self._specs[label], largest)
            known = self._guarded.keep(key, tuple(map(self._common, summary)))
        return known

    def _summary(self, spec: FnSpec, largest: Collection[int] = ()) -> Flows:
        """The flows of a function's results, of its arguments; states are solved for all steps of a fold.

        The arguments `largest` are largest elements, which exponents may be shifted by, and so may states be.
        """
        results = self._step(spec, largest, ())
        tops = [place for place, flow in enumerate(results) if spec.init and is_largest(flow)]
        return self._folded(spec, self._step(spec, largest, tops) if tops else results)

    def _step(self, spec: FnSpec, largest: Collection[int], tops: Collection[int]) -> Flows:
        """The flows of one step of a function; `tops` are the states that are largest elements."""
        count = len(spec.input_dtype) if isinstance(spec.input_dtype, list) else 1
        state = tuple(_marked(STATE, place, tops) for place in range(len(spec.init or ())))
        arguments = tuple(_marked(ARGUMENT, place, largest) for place in range(count))
        env: dict[str, Value] = {**self._helpers, "input": arguments, "state": state}
        value = self._reader.run(spec.apply, env)
        width = len(spec.init or ()) or (len(spec.output_dtype) if isinstance(spec.output_dtype, list) else 1)
        parts = value if isinstance(value, tuple) and len(value) == width else (value,) * width
        return tuple(map(self._reader.words.flow, parts))

    def _folded(self, spec: FnSpec, results: Flows) -> Flows:
        """The flows of all steps of a fold, by those of one step."""
        if not spec.init:
            return results
        after = {STATE + place: flow for place, flow in enumerate(results)}
        before = {STATE + place: NOTHING if first else ZERO for place, first in enumerate(spec.init or ())}
        found = solved(after, before, self._reader.words.position)
        return tuple(found[STATE + place] for place in range(len(results)))

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
        self._tags = among(tags & more_tags & ~MINUS) | TIMES | SIGNS | LOOPED
        self._kept_tags = self._tags | among(tags & more_tags | MINUS | LARGEST | EXP) | LOOPED
        self._opaque = self._reader.words.opaque & tags & ~more_tags
        # Where the reference takes no largest element, one before an exponential only guards it.
        self._shifts = 0 if tags & LARGEST else orders(LARGEST, EXP)
        own = (1 << inputs + 1) - 2
        self._leaves = met & more & ((1 << ARGUMENT) - 1) | own
        self._partners = self._leaves | ~((1 << ARGUMENT) - 1)

    def _vague(self, flow: Flow) -> int:
        """The leaves, as bits, of which only partners are known, as a call that nobody defines takes them."""
        return leaves(frozenset(path for path in flow if path.tags & self._opaque))

    def _common(self, flow: Flow, kept: Callable[[Path], Path] | None = None) -> Flow:
        keep = kept or self._kept
        return frozenset(keep(path) for path in flow if path.leaf >= ARGUMENT or self._leaves >> path.leaf & 1)

    def _kept(self, path: Path) -> Path:
        partners = path.partners & self._partners
        # What was multiplied by nothing that counts is not a product.
        tags = path.tags & (self._kept_tags if partners or not path.partners else self._kept_tags & ~TIMES)
        return Path(path.leaf, tags, partners, path.first & partners)

    def _told(self, path: Path) -> Path:
        """A path of the reference, as others are to fit it.

        Behind an operation that functions do otherwise any order of factors may be right, and on a path through a call
        that only the reference makes, and that nobody defines, any operation.
        """
        kept = self._kept(path)
        free = ANYTHING if path.tags & self._opaque else permitted(path.tags)
        otherwise = nonlinear(path.tags) != nonlinear(path.tags & self._tags)
        return kept._replace(tags=free & ~self._shifts, first=kept.partners if otherwise else kept.first)

    def _shown(self, flow: Flow) -> Flow:
        """A flow with the operations that are compared."""
        known = self._visible.get(flow)
        if known is None:
            paths = (path._replace(tags=path.tags & self._tags) for path in flow if not path.tags & self._shifts)
            known = self._visible.keep(flow, frozenset(paths))
        return known

    @staticmethod
    def _by_leaf(flows: Iterable[Flow]) -> dict[int, list[Path]]:
        found: dict[int, list[Path]] = {}
        for flow in flows:
            for path in flow:
                found.setdefault(path.leaf, []).append(path)
        return found


def _marked(first: int, place: int, largest: Collection[int]) -> Flow:
    """The leaf of an argument or a state."""
    own = leaf(first + place)
    return tagged(own, LARGEST) if place in largest else own


def _similarity(one: Flow, expected: _Expected) -> float:
    """The similarity of two flows: leaf by leaf, of their paths, their operations and their partners."""
    other, vague = expected
    if one == other and not vague:
        return 1.0
    mine, theirs = coarse(one), coarse(other)
    exact_mine, exact_theirs = _tags(one), _tags(other)
    simple_mine, simple_theirs = _tags(one, simple=True), _tags(other, simple=True)
    total = 0.0
    for number in mine.keys() | theirs.keys():
        if number not in mine or number not in theirs:
            continue
        a, b = mine[number], theirs[number]
        if vague >> number & 1:
            total += _VAGUELY * _bits_alike(a.partners, b.partners)
            continue
        exact = _overlap(exact_mine[number], exact_theirs[number])
        exact = (exact + _overlap(simple_mine[number], simple_theirs[number])) / 2
        pairs = ((simplified(a.tags), simplified(b.tags)), (a.partners, b.partners), (a.first, b.first))
        rest = sum(_bits_alike(*pair) for pair in pairs) / len(pairs)
        total += _EXACT * exact + (1 - _EXACT) * rest
    count = len(mine.keys() | theirs.keys())
    return total / count if count else 1.0


def _tags(flow: Flow, *, simple: bool = False) -> dict[int, set[int]]:
    """The operations of each leaf's paths; if `simple`, without what differs between ways to write the same."""
    found: dict[int, set[int]] = {}
    for path in flow:
        found.setdefault(path.leaf, set()).add(simplified(path.tags) if simple else path.tags & ~LOOPED)
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
