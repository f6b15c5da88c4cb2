"""A finished run in words: its end, its unsolved tasks, and what its program lacks outside the run."""

from __future__ import annotations

import inspect
import logging

import dspy

from optimizers.budget import Spending
from optimizers.call_metric import JUDGE
from optimizers.predictors import held
from optimizers.sampling import Sampling
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


def cut_short(state: State, sampling: Sampling) -> str:
    """What a budget left of the iteration that it ended, in words; empty if it ended none."""
    if not state.iterations:
        return "; it left nothing to sample with"
    *_, last = state.iterations
    total = len(last.tasks) * len(sampling.temperatures) * sampling.num_samples
    cut = f"; iteration {len(state.iterations)}, {last.label}, had {last.samples} of its {total} samples"
    return "" if last.complete else cut


def warn_of_async_tools(program: dspy.Module) -> None:
    """Warns of tools that the run called and that plain calls of its result refuse, which agents take in silence."""
    called = [(tool, getattr(tool.func, "__call__", None)) for tool in held(program, dspy.Tool)]  # noqa: B004
    waiting = [str(tool.name) for tool, own in called if any(map(inspect.iscoroutinefunction, (tool.func, own)))]
    if waiting and not dspy.settings.allow_tool_async_sync_conversion:
        logger.warning(
            "the run could call the tools that are coroutines (%s); dspy.Evaluate and plain calls of the compiled "
            "program cannot, and its agents see each call fail: use acall, or set "
            "dspy.configure(allow_tool_async_sync_conversion=True)",
            ", ".join(waiting),
        )


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
