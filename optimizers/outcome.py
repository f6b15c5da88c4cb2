"""What a run amounts to: its program, the programs it could have been, and a line for people.

Invariant: nothing here samples or changes the run.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

import dspy

from optimizers.demonstrations import copy_program
from optimizers.experience import Entry
from optimizers.run import Run

logger = logging.getLogger(__name__)


def program_with(run: Run, demos: Sequence[Entry]) -> dspy.Module:
    """A copy of the run's program that carries these demonstrations."""
    program = copy_program(run.program)
    run.fitter.set(program, demos)
    return program


def candidate_programs(run: Run, chosen: dspy.Module) -> list[dict[str, Any]]:
    """The programs that could have been the result, best first; those that were not measured come last, in order.

    A strategy without candidates has only the program `chosen`, whose score is pass@1.
    """
    candidates = run.selection.candidates(run)
    if not candidates:
        score = 100 * run.iterations[-1].pass_at_1 if run.iterations else None
        return [{"program": copy_program(chosen), "score": score, "label": run.selection.name}]
    scores, made = {level.label: 100 * level.score for level in run.validation}, []
    for candidate in candidates:
        program = program_with(run, run.fit(candidate.demos, run.askable))
        made.append({"program": program, "score": scores.get(candidate.label), "label": candidate.label})
    return sorted(made, key=lambda each: -math.inf if each["score"] is None else each["score"], reverse=True)


def summary(run: Run) -> str:
    """One line about a run that ended as its strategy has it."""
    left = [task.key for task in run.unsolved]
    if not left:
        return "every task is solved"
    parts = ["1 task stays unsolved" if len(left) == 1 else f"{len(left)} tasks stay unsolved"]
    if run.too_long:
        parts.append(f"too long for the LM, even without demonstrations: {', '.join(run.too_long)}")
    if unanswered := [key for key in left if key in run.unanswered and key not in run.too_long]:
        parts.append(f"no scored answers for {', '.join(unanswered)}")
    if short := _short_of_threshold(run):
        logger.warning("%s", short)
        parts.append(short)
    return "; ".join(parts)


def _short_of_threshold(run: Run) -> str | None:
    """What to say of a metric that gave scores, none of which reached the threshold; else None."""
    if any(result.solved for result in run.iterations):
        return None
    scores = [attempt.score for attempt in run.attempts if attempt.score is not None and not attempt.failed]
    best, threshold = max(scores, default=0.0), run.domain.threshold
    if not best or best >= threshold:
        return None
    return f"no score reached the threshold {threshold:g}, the highest is {best:g}; metric_threshold sets it"
