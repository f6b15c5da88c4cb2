"""The values of an experience's pictures, all derived from the iterations' counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from optimizers import IterationResult, TaskCount, pass_at_k
from pipeline.charts.plots import CurvePoint


def title(index: int, label: str) -> str:
    """An iteration's name for people, `3: HM_2`; iterations count from 1, as in the paper's Figure 7."""
    return f"{index + 1}: {label}" if index >= 0 else f"validating {label}"


def learning_points(iterations: Iterable[IterationResult]) -> list[CurvePoint]:
    """The learning curve (paper, Figure 7), one point per iteration."""
    return [CurvePoint(it.tokens_prompt_per_task, it.pass_at_n, title(it.index, it.label)) for it in iterations]


def final_counts(iterations: Iterable[IterationResult]) -> list[TaskCount]:
    """Each solved task's count at its best temperature, the first of equals, in the iteration that solved it."""
    return [
        max(
            (count for count in iteration.counts if count.task_key == key and count.samples),
            key=lambda count: count.successes / count.samples,
        )
        for iteration in iterations
        for key in iteration.solved
    ]


def pass_at_k_curve(counts: Sequence[TaskCount], tasks: int, samples: int) -> list[float]:
    """pass@1 to pass@`samples`, from 0 to 1, averaged over all tasks.

    A solved task with fewer scored samples than k counts with all of them.
    """
    return [
        sum(pass_at_k(count.samples, count.successes, min(k, count.samples)) for count in counts) / tasks
        for k in range(1, samples + 1)
    ]
