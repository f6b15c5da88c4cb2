"""A proposal's view of a task: its functions as callees, and possible routings. Nothing of the task is run."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property, lru_cache

from pipeline.lms.embedded.draft import Routing
from pipeline.lms.embedded.kinds import Context
from pipeline.lms.embedded.operands import Callee
from pipeline.lms.embedded.prompt.parsing import find_task
from pipeline.lms.embedded.symbolic.interpretation import Interpretation
from pipeline.lms.embedded.types.coercions import ONE, without_ones
from pipeline.lms.embedded.types.type_table import TypeId, TypeTable
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Dim
from step_runtime.base.types import DType, Multihot, components_of
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task


def _normalizes(task: Task) -> bool:
    """Whether the reference normalizes exponentials, which has two interpretations, and can take a maximum."""
    codes = "\n".join(code for spec in task.outputs for code in spec.data_transform)
    return ("softmax" in codes or "logsumexp" in codes) and any(
        spec.init is not None and "max" in spec.apply for spec in task.fns
    )


class TaskView:
    """Everything about a task that its samples share."""

    one: Dim = ONE

    def __init__(self, task: Task) -> None:
        self.task = task
        scopes = [static_scope(task, index) for index in range(len(task.size_sets()))]
        fixed = {name: size for name, size in scopes[0].sizes.items() if all(s.sizes.get(name) == size for s in scopes)}
        self.scope = scopes[0]
        self.table = TypeTable(self.scope, fixed)
        self.fns = tuple(self.scope.fns.values())
        self.callees = [Callee(fn, components_of(fn.input), self.table) for fn in self.fns]
        self.routings = list(self._find_routings())
        self.routing_callees = {
            id(r): Callee(r.merge, (*components_of(r.branches[0].input), r.index), self.table, routed=True)
            for r in self.routings
        }
        self._agreements: dict[tuple[int, int, int], bool] = {}
        self._plain: dict[TypeId, tuple[Dim, ...]] = {}

    def callees_given(self, routings: Sequence[Routing]) -> list[tuple[Callee, Routing | None]]:
        """What may be applied with these routings: the routings, and the functions that none of them uses."""
        taken = {fn for routing in routings for fn in (*routing.branches, routing.merge)}
        alone: list[tuple[Callee, Routing | None]] = [
            (callee, None) for callee in self.callees if callee.fn not in taken
        ]
        return [*alone, *((self.routing_callees[id(routing)], routing) for routing in routings)]

    # The members below interpret the task's code, on first access; the others use only types.

    @cached_property
    def interpretation(self) -> Interpretation:
        """The first of the interpretations."""
        return Interpretation(self.task, self.scope)

    @cached_property
    def interpretations(self) -> tuple[Interpretation, ...]:
        """All interpretations of the task."""
        shifts = (False, True) if _normalizes(self.task) else (False,)
        flats = (False, True) if self.interpretation.ambiguous else (False,)
        ways = [(shifted, flat) for shifted in shifts for flat in flats]
        more = (Interpretation(self.task, self.scope, shifted=shifted, flat=flat) for shifted, flat in ways[1:])
        return (self.interpretation, *more)

    @cached_property
    def context(self) -> Context:
        """What the kinds of this task's programs depend on."""
        return Context.of(self.scope.outputs, frozenset(fn.label for fn in self.fns if self.emits(fn)))

    @cached_property
    def _emits(self) -> dict[int, bool]:
        return {id(fn): self.interpretation.emits(fn) for fn in self.fns}

    @cached_property
    def _projects(self) -> dict[int, bool]:
        return {id(fn): self.interpretation.projects(fn) for fn in self.fns}

    def emits(self, fn: Fn) -> bool:
        """As `Interpretation.emits`."""
        return self._emits[id(fn)]

    def projects(self, fn: Fn) -> bool:
        """As `Interpretation.projects`."""
        return self._projects[id(fn)]

    def agrees(self, fn: Fn, place: int, stream: int) -> bool:
        """As `Interpretation.agrees`; streams that are not inputs agree with everything."""
        if stream >= len(self.table.inputs):
            return True
        key = (id(fn), place, stream)
        known = self._agreements.get(key)
        if known is None:
            known = self._agreements[key] = self.interpretation.agrees(fn, place, stream)
        return known

    def plain_shape(self, type_: TypeId) -> tuple[Dim, ...]:
        """A type's stream dims without ones."""
        known = self._plain.get(type_)
        if known is None:
            known = self._plain[type_] = without_ones(self.table.types[type_].shape)
        return known

    def _find_routings(self) -> list[Routing]:
        """Functions of one signature, as many as an index has bits, with a stateful function that folds their results.

        Of more such functions all choices are considered; fewer suffice if an element may pass a bit unchanged.
        """
        found = []
        for index, merge in itertools.product(self._indices(), (fn for fn in self.fns if fn.stateful)):
            bits = self.table.bits(index)
            groups: dict[tuple[DType, DType], list[Fn]] = {}
            for fn in self.fns:
                if not fn.stateful and fn.output == merge.input:
                    groups.setdefault((fn.input, fn.output), []).append(fn)
            for (source, result), fns in groups.items():
                if bits is None or bits < 2 or (len(fns) < bits and not (source == result and len(fns) == bits - 1)):
                    continue
                choices = itertools.islice(itertools.combinations(fns, min(bits, len(fns))), 20)
                found += [Routing(choice, merge, index, bits) for choice in choices]
        return found

    def _indices(self) -> Sequence[Multihot]:
        """The index types that streams of this task may have."""
        dtypes = [stream.dtype for stream in self.scope.inputs.values()] + [fn.output for fn in self.fns]
        elements = [getattr(part, "elem", part) for dtype in dtypes for part in components_of(dtype)]
        return tuple(dict.fromkeys(element for element in elements if isinstance(element, Multihot)))


@lru_cache(maxsize=256)
def view_of(text: str) -> TaskView | None:
    """The view of the task in a text, shared by its samples; None where the text holds no task."""
    task = find_task(text)
    return None if task is None else TaskView(task)
