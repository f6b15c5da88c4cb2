"""Edits of a plan: what its failure suggests to try next to it, one step away.

Each is a kind of mistake that a draft may hold: another function of the same signature, operands in another order, a
value taken from the wrong place, a fold where a scan is due or over other dims, a step that is missing or too many, the
branches of a routing in another order, another output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import NamedTuple

from pipeline.synthesis.plans import Plan, Step, ValueId, serves
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Dim
from step_runtime.base.types import DType, Multihot, STuple, components_of
from step_runtime.primitives import Accum, Map, Merge, Scan
from step_runtime.tasks.scope import Scope

_MOST_OPERANDS = 2
"""Functions of more operands are not inserted: too many values to choose from."""
_EXCHANGE = 1.0
"""The unit of cost: two things of one kind that changed places, or one for its only alternative."""
_OMITTED = 0.7
"""A function that the plan does not use yet, in place of another: cheaper, as a program is to use all functions."""
_EVERYWHERE = 1.1
"""An exchange that changes more than one step."""
_ELSEWHERE = 1.2
"""A value from another place, or by another path: there are several to choose from."""
_RESHAPED = 1.5
"""A value of another type, a step of another shape, or a step less: the rest of the plan must fit it."""
_NEW_STEP, _REPEATED_STEP = 1.5, 2.5
"""A step with a function that the plan lacks, or with one that it has; a function is rarely applied twice."""
_CHOICE = 0.2
"""What each further choice among alternatives of one edit adds."""
_VARIANTS = 3
"""Further chains of structural primitives that are tried where a step states no shape."""


class Edit(NamedTuple):
    """How far an edited plan is from the one before, what was done, in words, and what makes the plan."""

    cost: float
    what: str
    make: Callable[[], Plan]


class Editor:
    """The edits of one task's plans."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._fns = list(scope.fns.values())
        self._inputs: list[DType] = [type_.dtype for type_ in scope.inputs.values()]
        self._dims = list(dict.fromkeys(dim for type_ in scope.inputs.values() for dim in type_.shape))
        self._dims += [dim for type_ in scope.outputs for dim in type_.shape if dim not in self._dims]

    def edits(self, plan: Plan) -> Iterator[Edit]:
        """All plans one edit away."""
        unused = [fn for fn in self._fns if fn not in plan.used()]
        yield from self._other_functions(plan, unused)
        yield from self._other_orders(plan)
        yield from self._other_folds(plan)
        yield from self._other_sources(plan)
        yield from self._exchanged_values(plan)
        yield from self._other_sequences(plan)
        yield from self._other_outputs(plan)
        yield from self._other_shapes(plan)
        yield from self._more_steps(plan, unused)
        yield from self._fewer_steps(plan)

    def _types(self, plan: Plan) -> list[DType]:
        return [*self._inputs, *(step.fn.output for step in plan.steps)]

    def _other_functions(self, plan: Plan, unused: Sequence[Fn]) -> Iterator[Edit]:
        for place, step in enumerate(plan.steps):
            for position, fn in enumerate(step.fns):
                for other in self._fns if fn is not None else ():
                    if fn is not None and other != fn and _signature(other) == _signature(fn):
                        fns = (*step.fns[:position], other, *step.fns[position + 1 :])
                        cost = _OMITTED if other in unused else _EXCHANGE
                        what = f"{other.label} for {fn.label}"
                        yield Edit(cost, what, partial(plan.with_step, place, replace(step, fns=fns)))
        for (i, first), (j, second) in combinations(enumerate(plan.steps), 2):
            same = first.kind is not Merge is not second.kind and first.fn != second.fn
            if same and _signature(first.fn) == _signature(second.fn):
                steps = list(plan.steps)
                steps[i], steps[j] = replace(first, fns=second.fns), replace(second, fns=first.fns)
                what = f"{first.fn.label} and {second.fn.label} exchanged"
                yield Edit(_EXCHANGE, what, partial(replace, plan, steps=tuple(steps)))

    def _other_orders(self, plan: Plan) -> Iterator[Edit]:
        types = self._types(plan)
        for place, step in enumerate(plan.steps):
            operands = len(step.sources) - (step.kind is Merge)
            for i, j in combinations(range(operands), 2):
                sources = list(step.sources)
                same = len(components_of(types[sources[i]])) == len(components_of(types[sources[j]]))
                if same and sources[i] != sources[j]:
                    sources[i], sources[j] = sources[j], sources[i]
                    what = f"operands of {step.fn.label} exchanged"
                    yield Edit(_EXCHANGE, what, partial(plan.with_step, place, replace(step, sources=tuple(sources))))
            for i, j in combinations(range(len(step.fns) - 1), 2):
                fns = list(step.fns)
                fns[i], fns[j] = fns[j], fns[i]
                what = f"branches {i} and {j} into {step.fn.label} exchanged"
                yield Edit(_EXCHANGE, what, partial(plan.with_step, place, replace(step, fns=tuple(fns))))

    def _other_folds(self, plan: Plan) -> Iterator[Edit]:
        for place, step in enumerate(plan.steps):
            if step.kind not in (Accum, Scan):
                continue
            other = Scan if step.kind is Accum else Accum
            what = f"{other.__name__} of {step.fn.label} for {step.kind.__name__}"
            yield Edit(_EXCHANGE, what, partial(plan.with_step, place, replace(step, kind=other)))
            for folded in range(1, max(len(step.shape), 2) + 1):
                if folded != step.folded:
                    what = f"{step.fn.label} over {folded} dims"
                    yield Edit(_EXCHANGE, what, partial(plan.with_step, place, replace(step, folded=folded)))

    def _other_sources(self, plan: Plan) -> Iterator[Edit]:
        types = self._types(plan)
        for place, step in enumerate(plan.steps):
            for position, source in enumerate(step.sources):
                for value in range(plan.inputs + place):
                    if value == source or not _replaces(types[value], types[source]):
                        continue
                    sources = _put(step.sources, position, value)
                    what = f"operand {position + 1} of {step.fn.label} from {self._name(plan, value)}"
                    cost = _ELSEWHERE if types[value] == types[source] else _RESHAPED
                    yield Edit(cost, what, partial(plan.with_step, place, replace(step, sources=sources)))

    def _exchanged_values(self, plan: Plan) -> Iterator[Edit]:
        """Two values, each used wherever the other was."""
        types = self._types(plan)
        used = {value for step in plan.steps for value in step.sources}
        for first, second in combinations(range(len(types)), 2):
            # A step must come after what it uses.
            free = second < plan.inputs or all(
                first not in step.sources for step in plan.steps[: second - plan.inputs + 1]
            )
            if types[first] == types[second] and free and used & {first, second}:
                what = f"{self._name(plan, first)} and {self._name(plan, second)} exchanged everywhere"
                yield Edit(_EVERYWHERE, what, partial(_renamed, plan, {first: second, second: first}))

    def _other_sequences(self, plan: Plan) -> Iterator[Edit]:
        """Two steps on one path, in the other order: each keeps its other operands."""
        types = self._types(plan)
        for later, after in enumerate(plan.steps):
            for position, value in enumerate(after.sources):
                place = value - plan.inputs
                if place < 0 or Merge in (after.kind, plan.steps[place].kind):
                    continue
                before = plan.steps[place]
                for taken, source in enumerate(before.sources):
                    others = [other for other in after.sources if other != value]
                    if max(others, default=-1) >= value or not _replaces(types[source], types[value]):
                        continue
                    first = replace(after, sources=_put(after.sources, position, source), shape=before.shape)
                    second = replace(before, sources=_put(before.sources, taken, value), shape=after.shape)
                    steps = list(plan.steps)
                    steps[place], steps[later] = first, second
                    what = f"{after.fn.label} before {before.fn.label}"
                    yield Edit(_EVERYWHERE, what, partial(replace, plan, steps=tuple(steps)))

    def _other_outputs(self, plan: Plan) -> Iterator[Edit]:
        types = self._types(plan)
        for position, (result, output) in enumerate(zip(plan.results, self._scope.outputs, strict=False)):
            for value in range(len(types)):
                if value != result and serves(types[value], output.dtype):
                    results = _put(plan.results, position, value)
                    what = f"output {position + 1} from {self._name(plan, value)}"
                    yield Edit(_ELSEWHERE, what, partial(replace, plan, results=results))

    def _other_shapes(self, plan: Plan) -> Iterator[Edit]:
        for place, step in enumerate(plan.steps):
            for variant in range(_VARIANTS if not step.shape and step.variant == 0 else 0):
                what, other = f"operands of {step.fn.label} at another shape", replace(step, variant=variant + 1)
                yield Edit(_EXCHANGE + _CHOICE * variant, what, partial(plan.with_step, place, other))
            if step.variant == 0 and step.shape:
                what = f"operands of {step.fn.label} along another chain of structural primitives"
                yield Edit(_ELSEWHERE, what, partial(plan.with_step, place, replace(step, variant=1)))
            for shape in _near(step.shape, self._dims):
                shown = ", ".join(map(str, shape)) or "the cheapest"
                what = f"operands of {step.fn.label} at shape [{shown}]"
                yield Edit(_RESHAPED, what, partial(plan.with_step, place, replace(step, shape=shape)))

    def _more_steps(self, plan: Plan, unused: Sequence[Fn]) -> Iterator[Edit]:
        """A function between a value and what uses it."""
        types = self._types(plan)
        for place in range(len(plan.steps) + 1):
            step = plan.steps[place] if place < len(plan.steps) else None
            users = step.sources if step else plan.results
            for position, value in enumerate(users):
                for fn in self._fns:
                    new = fn in unused
                    if _replaces(fn.output, types[value]) and (new or len(components_of(fn.input)) == 1):
                        yield from self._between(plan, (place, position), fn, _NEW_STEP if new else _REPEATED_STEP)

    def _between(self, plan: Plan, where: tuple[int, int], fn: Fn, cost: float) -> Iterator[Edit]:
        place, position = where
        step = plan.steps[place] if place < len(plan.steps) else None
        value = (step.sources if step else plan.results)[position]
        types = self._types(plan)[: plan.inputs + place]
        for sources in _operands(fn, value, types):
            for made in _ways(fn, sources):
                before = step.fn.label if step else f"output {position + 1}"
                what = f"{fn.label} inserted before {before}"
                yield Edit(cost + _CHOICE * (len(sources) - 1), what, partial(_grown, plan, where, made))

    def _fewer_steps(self, plan: Plan) -> Iterator[Edit]:
        """A step whose operand takes the place of its result; what is unused then is dropped in lowering."""
        types = self._types(plan)
        for place, step in enumerate(plan.steps):
            made = plan.inputs + place
            for source in dict.fromkeys(step.sources):
                if _replaces(types[source], types[made]):
                    yield Edit(_RESHAPED, f"{step.fn.label} left out", partial(_renamed, plan, {made: source}))

    def _name(self, plan: Plan, value: ValueId) -> str:
        if value < plan.inputs:
            return list(self._scope.inputs)[value]
        return plan.steps[value - plan.inputs].fn.label


def _signature(fn: Fn) -> tuple[DType, DType, bool]:
    return fn.input, fn.output, fn.stateful


def _replaces(value: DType, other: DType) -> bool:
    """Whether a value may be used where another is."""
    if isinstance(value, Multihot) or isinstance(other, Multihot):
        return value == other
    return serves(value, other)


def _operands(fn: Fn, value: ValueId, types: Sequence[DType]) -> Iterator[tuple[ValueId, ...]]:
    """Operands of a function, one of which is the value."""
    if value >= len(types):
        return
    if types[value] == fn.input:
        yield (value,)
        return
    need = components_of(fn.input)
    if len(need) > _MOST_OPERANDS or isinstance(types[value], STuple):
        return
    for position, dtype in enumerate(need):
        if serves(types[value], dtype):
            others = [
                [other for other, own in enumerate(types) if not isinstance(own, STuple) and serves(own, part)]
                for part in (*need[:position], *need[position + 1 :])
            ]
            if not others:
                yield (value,)
            for other in others[0] if len(others) == 1 else ():
                yield (value, other) if position == 0 else (other, value)


def _ways(fn: Fn, sources: tuple[ValueId, ...]) -> Iterator[Step]:
    if not fn.stateful:
        yield Step(Map, (fn,), sources)
        return
    for folded in (1, 2):
        yield Step(Accum, (fn,), sources, (), folded)
        yield Step(Scan, (fn,), sources, (), folded)


def _near(shape: tuple[Dim, ...], dims: Sequence[Dim]) -> Iterator[tuple[Dim, ...]]:
    """Shapes with one dim more or less, or two neighbours exchanged, and the cheapest."""
    if not shape:
        return
    yield ()
    for place in range(len(shape) + 1):
        yield from ((*shape[:place], dim, *shape[place:]) for dim in dims if dim not in shape)
    for place in range(len(shape)):
        if len(shape) > 1:
            yield (*shape[:place], *shape[place + 1 :])
        if place + 1 < len(shape):
            yield (*shape[:place], shape[place + 1], shape[place], *shape[place + 2 :])


def _put(values: tuple[ValueId, ...], place: int, value: ValueId) -> tuple[ValueId, ...]:
    return (*values[:place], value, *values[place + 1 :])


def _renamed(plan: Plan, names: Mapping[ValueId, ValueId]) -> Plan:
    """The plan with values used in place of others."""
    steps = tuple(
        replace(step, sources=tuple(names.get(value, value) for value in step.sources)) for step in plan.steps
    )
    return replace(plan, steps=steps, results=tuple(names.get(value, value) for value in plan.results))


def _grown(plan: Plan, where: tuple[int, int], made: Step) -> Plan:
    """The plan with a step before the one in a place, as its operand in a position; or before an output."""
    place, position = where
    grown, new = plan.inserted(place, made)
    if place == len(plan.steps):
        return replace(grown, results=_put(grown.results, position, new))
    after = grown.steps[place + 1]
    return grown.with_step(place + 1, replace(after, sources=_put(after.sources, position, new)))
