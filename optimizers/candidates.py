"""The programs that could have been a run's result, and the demonstrations that the chosen program lacks.

Invariants: every candidate has a score that can be compared; candidates belong to the process that made them: a
compiled program is saved and copied without them.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import dspy

from optimizers.demonstrations import copy_program
from optimizers.experience import Entry
from optimizers.jsonable import to_jsonable
from optimizers.run import Run

logger = logging.getLogger(__name__)

UNMEASURED = -math.inf
"""The score of a program that was not measured: less than any."""


class CandidatePrograms(list[dict[str, Any]]):
    """Candidates, best first: each a dict with `program`, `score` (a percentage, or `UNMEASURED`) and `label`.

    It is pickled as an empty list, and a deep copy of a program shares it.
    """

    def __reduce_ex__(self, protocol: Any) -> Any:
        return list, ()

    def __deepcopy__(self, memo: dict[int, Any]) -> CandidatePrograms:
        return self


def warn_of_unshown(run: Run, demos: Sequence[Entry]) -> None:
    """Warns of answers, such as classes, that the program's default demonstrations lack although some task has them."""
    solved, candidates = list(run.entries.values()), run.selection.candidates(run)
    if not demos or len(candidates) < 2:
        return
    labels = {name for task in run.tasks.values() for name in _labels(task.example)}
    for name, values in unshown_answers(solved, demos, labels).items():
        logger.warning(
            "the compiled program shows %d of %d solved tasks, none with %s: %s; a valset chooses among %s",
            *(len(demos), len(solved), name, ", ".join(values)[:200]),
            ", ".join(candidate.label for candidate in candidates),
        )


def _labels(example: dspy.Example) -> set[str]:
    return set(example.keys()) - set(example.inputs().keys())


def unshown_answers(
    solved: Sequence[Entry], shown: Sequence[Entry], labels: Collection[str]
) -> Mapping[str, list[str]]:
    """By output field, its values in solved tasks that no shown one has.

    Only fields whose values several tasks share count, such as the class that a classifier gives; and of these those
    that are `labels` of the examples, or all if none is.
    """
    missing: dict[str, list[str]] = {}
    names = {name: None for entry in solved for name in entry.outputs}
    for name in [name for name in names if name in labels] or names:
        values, seen = _values(name, solved), _values(name, shown)
        distinct = dict.fromkeys(values)
        if 2 * len(distinct) <= len(values) and (unseen := [value for value in distinct if value not in seen]):
            missing[name] = unseen
    return missing


def _values(name: str, entries: Sequence[Entry]) -> list[str]:
    found = (to_jsonable(entry.outputs[name]) for entry in entries if name in entry.outputs)
    return [value if isinstance(value, str) else json.dumps(value, sort_keys=True) for value in found]


def candidate_programs(run: Run, chosen: dspy.Module) -> CandidatePrograms:
    """The programs that could have been the result, best first; those that were not measured come last, in order.

    A strategy without candidates has only the program `chosen`, whose score is pass@1.
    """
    candidates = run.selection.candidates(run)
    if not candidates:
        score = 100 * run.iterations[-1].pass_at_1 if run.iterations else UNMEASURED
        return CandidatePrograms([{"program": copy_program(chosen), "score": score, "label": run.selection.name}])
    scores, made = {level.label: 100 * level.score for level in run.validation}, CandidatePrograms()
    for candidate in candidates:
        program = run.program_with(run.fit(candidate.demos, run.askable))
        made.append({"program": program, "score": scores.get(candidate.label, UNMEASURED), "label": candidate.label})
    made.sort(key=lambda each: -each["score"])
    return made
