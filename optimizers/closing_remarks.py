"""A finished run in words: its end, its unsolved tasks, and answers that its program does not show."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence

import dspy

from optimizers.budget import Spending
from optimizers.call_metric import JUDGE
from optimizers.experience import Entry
from optimizers.jsonable import to_jsonable
from optimizers.state import State

logger = logging.getLogger(__name__)


def summary(state: State) -> str:
    """One line about a run that ended as its strategy has it."""
    left = [task.key for task in state.unsolved]
    if not left:
        return "every task is solved"
    parts = ["1 task remains unsolved" if len(left) == 1 else f"{len(left)} tasks remain unsolved"]
    if state.too_long:
        long = [key for key in state.tasks if key in state.too_long]
        parts.append(f"too long for the LM, even without demonstrations: {', '.join(long)}")
    if unanswered := [key for key in left if key in state.unanswered and key not in state.too_long]:
        parts.append(f"no scored answers for {', '.join(unanswered)}")
    if short := _short_of_threshold(state):
        logger.warning("%s", short)
        parts.append(short)
    return "; ".join(parts)


def _short_of_threshold(state: State) -> str | None:
    """What to say of a metric that gave scores, none of which reached the threshold; else None."""
    if any(result.learned for result in state.iterations):
        return None
    scores = [attempt.score for attempt in state.attempts if attempt.score is not None and not attempt.failed]
    best, threshold = max(scores, default=0.0), state.domain.threshold
    if not best or best >= threshold:
        return None
    return f"no score reached the threshold {threshold:g}, the highest is {best:g}; metric_threshold sets it"


def warn_of_unscored(state: State, spending: Spending, failure_score: float | None) -> None:
    """Warns of many failures of tasks that have an answer, which no success rate has; and of requests not seen."""
    failures, samples = (sum(getattr(each, name) for each in state.iterations) for name in ("failures", "samples"))
    if failures > (most := spending.budget.failures * samples) and failure_score is None:
        failed = [each for each in state.attempts if each.failed and each.task_key not in state.unanswered]
        if len(failed) > most:
            described = len(failed), samples, failed[-1].error
            logger.warning(
                "%d of %d samples are in no success rate, the last: %s; failure_score counts them", *described
            )
    if samples > failures and set(spending.tokens) <= {JUDGE}:
        logger.warning(
            "no request of the program was counted: threads of its own see neither the run's LM nor its temperatures, "
            "unless they are dspy.Parallel's or start in a copy of the context"
        )


def warn_of_unshown(state: State, demos: Sequence[Entry], candidates: Sequence[str]) -> None:
    """Warns of answers, such as classes, that the program's default demonstrations lack although some task has them."""
    solved = list(state.entries.values())
    if not demos or len(candidates) < 2:
        return
    labels = {name for task in state.tasks.values() for name in _labels(task.example)}
    for name, values in unshown_answers(solved, demos, labels).items():
        logger.warning(
            "the compiled program shows %d of %d solved tasks, none with %s: %s; a valset chooses among %s",
            *(len(demos), len(solved), name, ", ".join(values)[:200]),
            ", ".join(candidates),
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
