"""The programs that could have been a run's result.

Invariants: every candidate has a score that can be compared; candidates belong to the process that made them: a
compiled program is saved and copied without them.
"""

from __future__ import annotations

import math
from typing import Any

import dspy

from optimizers.demonstrations import copy_program
from optimizers.run import Run

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
