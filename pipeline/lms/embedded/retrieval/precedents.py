"""Evidence from solved examples for a new task: similar functions applied to similar streams.

A solved program is a list of uses: a function (or a routing) on sources, each known by its provenance: the
functions that made it. Uses that the new task has no function for are omitted first (`applications.adapted`). A use is
a precedent for applying a function of the new task to its streams to the degree that the functions are similar, the
provenances are similar, and the example is relevant to the task. The best precedent counts, not their number, so
any number of unrelated examples has no effect.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from pipeline.lms.embedded.draft import Routing
from pipeline.lms.embedded.prompt.parsing import Examples, SolvedExample
from pipeline.lms.embedded.retrieval.applications import (
    How,
    Provenance,
    TaskProfile,
    Use,
    adapted,
    input_provenances,
    outline,
    relevance,
)
from pipeline.lms.embedded.retrieval.fingerprints import Fingerprint, fingerprints_of, similarity
from pipeline.lms.embedded.retrieval.habits import Habits
from pipeline.lms.embedded.retrieval.skills import skill_of
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.base.functions import Fn
from step_runtime.tasks.scope import Scope
from step_runtime.tasks.task import Task

DEMONSTRATION = 4.0
"""The weight of a demonstration of full relevance, relative to a reference example."""
_FAINT = 0.02
"""Support below this counts as none."""
_ORIGINS = 0.7
"""How much the provenances of an operand's own sources count in its similarity."""
_MADE = 0.15
"""Similarity of an input and a stream that was made,"""
_OTHERWISE = 0.3
"""and of what was folded by Accum and by Scan."""
_INSERTED = 0.4
"""Similarity that a stream keeps after a function without a counterpart in the example."""
_COINCIDE = 0.2
"""The factor for a precedent if an operand is used twice here but not there, or the other way round."""
_AGAIN = 0.2
"""The factor for a precedent that supports a repeated application which its own program made only once."""


@lru_cache(maxsize=128)
def precedents_for(view: TaskView, read: Examples) -> Precedents:
    """The examples and demonstrations, weighted by relevance to a task."""
    return Precedents(view.task, view.scope, [*read[0], *read[1]])


class Precedents:
    """The evidence from solved tasks about one new task. Threads may share it; answers are cached.

    Attributes:
        inputs: The provenances of the task's inputs.
        relevance: Of each solved task.
        habits: What they suggest beyond which function to apply next.
        skills: The skills that they are examples of, each with the relevance of its example.
        fingerprints: Of the task's functions, by label.
    """

    def __init__(self, task: Task, scope: Scope, shown: Sequence[SolvedExample]) -> None:
        fingerprints = fingerprints_of(task, scope.fns)
        profile = TaskProfile.of(task, scope, list(fingerprints.values()))
        self.fingerprints = fingerprints
        self.inputs = input_provenances(task, scope)
        outlines = [(solved, known) for solved in dict.fromkeys(shown) if (known := outline(solved)) is not None]
        self.relevance = {solved: relevance(known.profile, profile) for solved, known in outlines}
        self._uses: list[tuple[Use, float]] = []
        self._results: list[tuple[Provenance, float]] = []
        for solved, known in outlines:
            uses, results = adapted(known, profile.fingerprints)
            self._uses += [(use, self.relevance[solved]) for use in uses]
            self._results += [(result, self.relevance[solved]) for result in results]
        self.habits = Habits(fingerprints, self._uses, [(known, self.relevance[solved]) for solved, known in outlines])
        shown_skills = ((skill_of(solved), self.relevance[solved]) for solved, _ in outlines)
        self.skills = [(skill, weight) for skill, weight in shown_skills if skill is not None]
        self._provenances: dict[tuple[object, ...], Provenance] = {}
        self._alike: dict[tuple[Provenance, Provenance], float] = {}
        self._candidates: dict[tuple[Fingerprint, ...], list[tuple[Use, float]]] = {}
        self._support: dict[tuple[object, ...], dict[How, float]] = {}

    def weights(self, read: Examples) -> Mapping[SolvedExample, float]:
        """The weight of each solved task in statistics: all examples equally, demonstrations by relevance."""
        weights = {solved: DEMONSTRATION * self.relevance.get(solved, 0.0) ** 2 for solved in read[1]}
        return dict.fromkeys(read[0], 1.0) | weights

    def made(self, maker: Fn | Routing, how: How, sources: tuple[Provenance, ...]) -> Provenance:
        """The provenance of the result of a function, or a routing, on streams."""
        fingerprint = self._fingerprints_of(maker)[0]
        key = (fingerprint, how, sources)
        known = self._provenances.get(key)
        made = known or Provenance(fingerprint, how.startswith("Scan"), sources)
        return self._provenances.setdefault(key, made)

    def cover(self, maker: Fn | Routing) -> bool:
        """Whether there is any precedent for applying this."""
        return bool(self._alike_uses(self._fingerprints_of(maker)))

    def ending(self, provenance: Provenance) -> float:
        """How well precedents support that a stream of this provenance is an output."""
        return max((weight * self._likeness(provenance, result) for result, weight in self._results), default=0.0)

    def order(self, routing: Routing, branches: Sequence[Fn | None]) -> float:
        """How well precedents support an order of branches."""
        fingerprints = [self.fingerprints[fn.label] for fn in branches if fn is not None]
        merge = self.fingerprints[routing.merge.label]
        return max(
            (
                weight
                * similarity(merge, use.fingerprints[0])
                * sum(map(similarity, fingerprints, use.fingerprints[1:]))
                / len(fingerprints)
                for use, weight in self._uses
                if use.how == "Route" and len(use.fingerprints) == len(branches) + 1 == len(fingerprints) + 1
            ),
            default=0.0,
        )

    def support(self, maker: Fn | Routing, sources: tuple[Provenance, ...], *, again: bool) -> dict[How, float]:
        """How well precedents support applying this to streams of these provenances: in (0, 1], by how it is applied.

        `again` says that the same was already applied to other streams.
        """
        key = (id(maker), sources, again)
        known = self._support.get(key)
        if known is None:
            known = self._support[key] = self._find(self._fingerprints_of(maker), sources, again)
        return known

    def _find(
        self, fingerprints: tuple[Fingerprint, ...], sources: tuple[Provenance, ...], again: bool
    ) -> dict[How, float]:
        best: dict[How, float] = {}
        for use, alike in self._alike_uses(fingerprints):
            weight = alike * _AGAIN if again and use.times == 1 else alike
            if len(use.sources) == len(sources) and weight > best.get(use.how, _FAINT):
                score = weight * self._all_alike(sources, use.sources)
                if score > best.get(use.how, _FAINT):
                    best[use.how] = score
        return best

    def _all_alike(self, sources: tuple[Provenance, ...], others: tuple[Provenance, ...]) -> float:
        """The similarity of operands: the geometric mean, lower if streams coincide in only one of the programs."""
        product = math.prod(self._likeness(*pair) for pair in zip(sources, others, strict=True))
        same = len(set(sources)) == len(set(others))
        return float(product ** (1 / len(sources))) * (1.0 if same else _COINCIDE)

    def _alike_uses(self, fingerprints: tuple[Fingerprint, ...]) -> list[tuple[Use, float]]:
        """The uses of similar functions, each with its similarity times the relevance of its task."""
        known = self._candidates.get(fingerprints)
        if known is None:
            scored = [(use, weight * _makers_alike(fingerprints, use.fingerprints)) for use, weight in self._uses]
            known = self._candidates[fingerprints] = [pair for pair in scored if pair[1] > _FAINT]
        return known

    def _likeness(self, own: Provenance, there: Provenance) -> float:
        """The similarity of two provenances, from the maker back to the inputs."""
        key = (own, there)
        known = self._alike.get(key)
        if known is None:
            known = self._alike[key] = self._compare(own, there)
        return known

    def _compare(self, own: Provenance, there: Provenance) -> float:
        alike = _INSERTED * self._likeness(own.sources[0], there) if own.sources else 0.0
        return max(alike, self._compare_makers(own, there))

    def _compare_makers(self, own: Provenance, there: Provenance) -> float:
        if isinstance(own.maker, Fingerprint) and isinstance(there.maker, Fingerprint):
            alike = similarity(own.maker, there.maker) * (1.0 if own.scanned == there.scanned else _OTHERWISE)
            if not alike or len(own.sources) != len(there.sources):
                return alike * (1 - _ORIGINS)
            pairs = [self._likeness(*pair) for pair in zip(own.sources, there.sources, strict=True)]
            return alike * (1 - _ORIGINS + _ORIGINS * sum(pairs) / len(pairs))
        if isinstance(own.maker, Fingerprint) or isinstance(there.maker, Fingerprint):
            return _MADE
        same = [mine == other for mine, other in zip(own.maker, there.maker, strict=True)]
        return (0.3 + 0.3 * same[0] + 0.25 * same[1] + 0.15 * same[2]) if own.maker[0][0] == there.maker[0][0] else 0.1

    def _fingerprints_of(self, maker: Fn | Routing) -> tuple[Fingerprint, ...]:
        if isinstance(maker, Routing):
            return (self.fingerprints[maker.merge.label], *(self.fingerprints[fn.label] for fn in maker.branches))
        return (self.fingerprints[maker.label],)


def _makers_alike(fingerprints: tuple[Fingerprint, ...], others: tuple[Fingerprint, ...]) -> float:
    """The similarity of two functions, or two routings: by the merging functions and the first branches."""
    if (len(fingerprints) > 1) != (len(others) > 1):
        return 0.0
    return min(
        1.0, sum(similarity(*pair) for pair in zip(fingerprints[:2], others[:2], strict=False)) / len(fingerprints[:2])
    )
