"""What solved tasks suggest about the parts of a program that precedents leave open.

A precedent says which function to apply to which streams. `Habits` says, by the same similarity of functions and
relevance of tasks, in which form streams meet and how many dims are folded, which function merges the branches of a
routing, whether functions of a routing are also applied alone, and whether there is more than one routing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pipeline.lms.embedded.draft import Routing
from pipeline.lms.embedded.retrieval.applications import Form, How, Outline, Use
from pipeline.lms.embedded.retrieval.fingerprints import Fingerprint, similarity
from step_runtime.base.functions import Fn

_UNLIKE = 0.25
"""Functions less similar than this are unrelated."""
_PRIOR = (0.2, 2.0)
"""A share that holds without evidence, as a part of a whole; a fully relevant solved task counts `_COUNTED`."""
_COUNTED = 4.0

FormKey = tuple[str, Form]


class Habits:
    """The habits of solved tasks, for one new task. Threads may share it; answers are cached.

    Attributes:
        alone: How often a function of a routing is also applied alone.
        several: How often there is more than one routing.
    """

    def __init__(
        self,
        fingerprints: Mapping[str, Fingerprint],
        uses: Sequence[tuple[Use, float]],
        outlines: Iterable[tuple[Outline, float]],
    ) -> None:
        self._fingerprints = fingerprints
        self._uses = uses
        self._forms: dict[tuple[str, int], dict[FormKey, float]] = {}
        routed = [(outline, _COUNTED * weight**2) for outline, weight in outlines if _routings(outline)]
        self.alone = _share((_applied_alone(outline), weight) for outline, weight in routed)
        self.several = _share((len(_routings(outline)) > 1, weight) for outline, weight in routed)

    def form(self, fn: Fn, how: How, form: Form) -> float:
        """How well solved tasks support applying a function in a form: in [0, 1]."""
        sources = len(form.columns[0]) if form.columns else 0
        known = self._forms.get((fn.label, sources))
        if known is None:
            known = self._forms[fn.label, sources] = self._find(self._fingerprints[fn.label], sources)
        return known.get(_key(how, form), 0.0)

    def merging(self, routing: Routing) -> float:
        """How well solved tasks support the merging function of a routing: in [0, 1]."""
        own = self._fingerprints[routing.merge.label]
        return max(
            (weight * similarity(own, use.fingerprints[0]) for use, weight in self._uses if use.how == "Route"),
            default=0.0,
        )

    def _find(self, fingerprint: Fingerprint, sources: int) -> dict[FormKey, float]:
        found: dict[FormKey, float] = {}
        for use, weight in self._uses:
            alike = similarity(fingerprint, use.fingerprints[0])
            if use.form is not None and len(use.sources) == sources and alike > _UNLIKE:
                key = _key(use.how, use.form)
                found[key] = max(found.get(key, 0.0), weight * alike)
        return found


def _key(how: How, form: Form) -> FormKey:
    """Forms of folds that keep no dim are those of others."""
    return how.partition(" ")[0], form


def _routings(outline: Outline) -> list[tuple[Fingerprint, ...]]:
    return [each.fingerprints for each in outline.applications if each.how == "Route"]


def _applied_alone(outline: Outline) -> bool:
    """Whether a function of a routing is also applied alone."""
    routed = {fingerprint for fingerprints in _routings(outline) for fingerprint in fingerprints}
    return any(each.fingerprints[0] in routed for each in outline.applications if each.how != "Route")


def _share(counted: Iterable[tuple[bool, float]]) -> float:
    part, whole = _PRIOR
    for holds, weight in counted:
        part, whole = part + weight * holds, whole + weight
    return part / whole
