"""A task as a proposal sees it: its functions as offers, and what may be routed. Nothing of the task is run."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property

from pipeline.lms.embedded.layout import ONE, without_ones
from pipeline.lms.embedded.moves import Routing
from pipeline.lms.embedded.reference import Reading
from pipeline.lms.embedded.scoring import Context
from pipeline.lms.embedded.space import Need, Space, TypeId
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Dim
from step_runtime.base.types import DType, Multihot, STuple, components_of
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task


class Offer:
    """Something that takes components: a function, or a routing with its index last."""

    def __init__(self, fn: Fn, need: Need, space: Space) -> None:
        self.fn = fn
        self.need = need
        self.suffixes = [(need[i:], space.number(need[i:])) for i in range(len(need))]
        self._served: dict[tuple[int, ...], list[DType]] = {}

    def served(self, counts: tuple[int, ...]) -> list[DType]:
        """What each source serves when each serves so many components."""
        known = self._served.get(counts)
        if known is None:
            ends = list(itertools.accumulate(counts))
            parts = [self.need[end - count : end] for end, count in zip(ends, counts, strict=True)]
            known = self._served[counts] = [part[0] if len(part) == 1 else STuple(part) for part in parts]
        return known


def _normalizes(task: Task) -> bool:
    """Whether the reference normalizes exponentials, which can be read in two ways, and a maximum is offered."""
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
        self.space = Space(self.scope, fixed)
        self.fns = tuple(self.scope.fns.values())
        self.offers = [Offer(fn, components_of(fn.input), self.space) for fn in self.fns]
        self.routings = list(self._find_routings())
        self.routing_offers = {
            id(r): Offer(r.merge, (*components_of(r.branches[0].input), r.index), self.space) for r in self.routings
        }
        self._agreements: dict[tuple[int, int, int], bool] = {}
        self._plain: dict[TypeId, tuple[Dim, ...]] = {}

    def offered(self, routings: Sequence[Routing]) -> list[tuple[Offer, Routing | None]]:
        """What may be applied if these routings are: them, and the functions that none of them takes."""
        taken = {fn for routing in routings for fn in (*routing.branches, routing.merge)}
        alone: list[tuple[Offer, Routing | None]] = [(offer, None) for offer in self.offers if offer.fn not in taken]
        return [*alone, *((self.routing_offers[id(routing)], routing) for routing in routings)]

    # What follows reads the task's code; who never asks for it sees types only.

    @cached_property
    def reading(self) -> Reading:
        """The first of the readings."""
        return Reading(self.task, self.scope)

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """All ways to read the task."""
        shifts = (False, True) if _normalizes(self.task) else (False,)
        flats = (False, True) if self.reading.ambiguous else (False,)
        ways = [(shifted, flat) for shifted in shifts for flat in flats]
        more = (Reading(self.task, self.scope, shifted=shifted, flat=flat) for shifted, flat in ways[1:])
        return (self.reading, *more)

    @cached_property
    def context(self) -> Context:
        """What the kinds of this task's programs depend on."""
        return Context.of(self.scope.outputs, frozenset(fn.label for fn in self.fns if self.emits(fn)))

    @cached_property
    def _emits(self) -> dict[int, bool]:
        return {id(fn): self.reading.emits(fn) for fn in self.fns}

    @cached_property
    def _projects(self) -> dict[int, bool]:
        return {id(fn): self.reading.projects(fn) for fn in self.fns}

    def emits(self, fn: Fn) -> bool:
        """As `Reading.emits`."""
        return self._emits[id(fn)]

    def projects(self, fn: Fn) -> bool:
        """As `Reading.projects`."""
        return self._projects[id(fn)]

    def agrees(self, fn: Fn, place: int, stream: int) -> bool:
        """As `Reading.agrees`; streams that are no inputs agree with everything."""
        if stream >= len(self.space.inputs):
            return True
        key = (id(fn), place, stream)
        known = self._agreements.get(key)
        if known is None:
            known = self._agreements[key] = self.reading.agrees(fn, place, stream)
        return known

    def plain_shape(self, type_: TypeId) -> tuple[Dim, ...]:
        """A type's stream dims without ones."""
        known = self._plain.get(type_)
        if known is None:
            known = self._plain[type_] = without_ones(self.space.types[type_].shape)
        return known

    def _find_routings(self) -> list[Routing]:
        """Functions of one signature, as many as an index has bits, with a stateful function that folds their results.

        Of more such functions all choices are offered; of fewer, if an element may pass a bit unchanged, those.
        """
        found = []
        for index, merge in itertools.product(self._indices(), (fn for fn in self.fns if fn.stateful)):
            bits = self.space.bits(index)
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
