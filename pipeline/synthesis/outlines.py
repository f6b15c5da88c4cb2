"""Outlines: plans that apply every function once, in the order in which the task lists them, as a start for repairs.

An author mostly lists functions in the order of use, and what a function takes was mostly made just before. An outline
is rarely right; where no draft is a program, it is what edits start from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from pipeline.synthesis.plans import Plan, Step, ValueId, serves
from step_runtime.base.functions import Fn
from step_runtime.base.types import DType, Multihot, STuple, components_of
from step_runtime.primitives import Accum, Map, Scan
from step_runtime.tasks.scope import Scope

_MOST_FOLDS = 3
"""Stateful functions for which both Accum and Scan are outlined."""


def outlines(scope: Scope) -> Iterator[Plan]:
    """Distinct outlines of a task; none if some function finds no operands."""
    stateful = [name for name, fn in scope.fns.items() if fn.stateful]
    found: dict[Plan, None] = {}
    for newest, kinds in product((True, False), product((Accum, Scan), repeat=min(len(stateful), _MOST_FOLDS))):
        scans = {name for name, kind in zip(stateful, kinds, strict=False) if kind is Scan}
        plan = _outline(scope, scans, newest=newest)
        if plan is not None and plan not in found:
            found[plan] = None
            yield plan


def _outline(scope: Scope, scans: set[str], *, newest: bool) -> Plan | None:
    values: list[DType] = [type_.dtype for type_ in scope.inputs.values()]
    unused, steps, inputs = set(range(len(values))), list[Step](), len(values)
    for name, fn in scope.fns.items():
        sources = _sources(fn.input, values, unused, newest=newest)
        if sources is None:
            return None
        steps.append(_step(fn, sources, scan=name in scans))
        unused -= set(sources)
        unused.add(len(values))
        values.append(fn.output)
    results = []
    for output in scope.outputs:
        serving = [value for value in range(len(values)) if _serves(values[value], output.dtype)]
        free = [value for value in serving if value in unused and value not in results]
        if not serving:
            return None
        results.append((free or serving)[-1])
    return Plan(tuple(steps), tuple(results), inputs)


def _step(fn: Fn, sources: tuple[ValueId, ...], *, scan: bool) -> Step:
    if not fn.stateful:
        return Step(Map, (fn,), sources)
    return Step(Scan if scan else Accum, (fn,), sources, (), 1)


def _sources(
    dtype: DType, values: Sequence[DType], unused: set[ValueId], *, newest: bool
) -> tuple[ValueId, ...] | None:
    """Operands that together hold a type: values of just that type before others, and unused ones before used ones."""
    need, found = components_of(dtype), list[ValueId]()
    place = 0
    while place < len(need):
        options = [
            (value not in found, values[value] == part, value in unused, value if newest else -value, value, width)
            for value, own in enumerate(values)
            for width in [len(components_of(own))]
            for part in [need[place] if width == 1 else _joined(need[place : place + width])]
            if place + width <= len(need) and _serves(own, part)
        ]
        if not options:
            return None
        *_, value, width = max(options)
        found.append(value)
        place += width
    return tuple(found)


def _joined(parts: Sequence[DType]) -> DType:
    return STuple(tuple(parts))


def _serves(own: DType, wanted: DType) -> bool:
    if isinstance(own, Multihot) or isinstance(wanted, Multihot):
        return own == wanted
    return serves(own, wanted)
