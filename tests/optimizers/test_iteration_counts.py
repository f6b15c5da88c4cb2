"""Counts over the samples of an iteration, in whatever order they finish."""

import dspy
import pytest

from optimizers import Attempt, TokenCount
from optimizers.iteration_counts import IterationCounts
from optimizers.sampling import Sampling, TaskExample

SAMPLING = Sampling(num_samples=2, temperatures=(0.4, 1.0))
TASKS = [TaskExample(index, key, dspy.Example()) for index, key in enumerate("ab")]


def attempt(task: int, temperature: float, sample: int, score: float | None) -> Attempt:
    tokens = {"solve": TokenCount(calls=1, prompt=10), "check": TokenCount(calls=1, completion=task)}
    return Attempt(0, task, "ab"[task], temperature, sample, 0, score=score, passed=score == 1.0, tokens=tokens,
                   seconds=2.0, metric_seconds=0.5)  # fmt: skip


@pytest.fixture
def counts() -> IterationCounts:
    counts = IterationCounts(SAMPLING)
    for each in (attempt(1, 1.0, 1, 1.0), attempt(0, 0.4, 0, None), attempt(1, 0.4, 1, 0.0), attempt(1, 1.0, 0, 1.0)):
        counts.add(each)
    return counts


def test_places_are_those_of_task_temperature_and_sample(counts: IterationCounts) -> None:
    """Sorted, they are the order of the algorithm."""
    assert list(counts.places) == [7, 0, 5, 6] and counts.samples == 4


def test_a_failure_counts_in_neither_number(counts: IterationCounts) -> None:
    """It is no sample of the rate."""
    assert counts.failures == 1
    assert [(c.task_key, c.temperature, c.successes, c.samples) for c in counts.counts(TASKS[0])] == [
        ("a", 0.4, 0, 0),
        ("a", 1.0, 0, 0),
    ]


def test_the_best_temperature_has_the_highest_rate_and_is_the_first_of_equals(counts: IterationCounts) -> None:
    """A temperature without a scored sample is the worst."""
    best = counts.best(TASKS[1])
    assert (best.temperature, best.successes, best.samples) == (1.0, 2, 2)
    assert counts.best(TASKS[0]).temperature == 0.4


def test_tokens_and_seconds_add_up_per_predictor_and_per_task(counts: IterationCounts) -> None:
    """Failed samples have cost something too."""
    assert counts.tokens == {"solve": TokenCount(calls=4, prompt=40), "check": TokenCount(calls=4, completion=3)}
    assert counts.spent(1) == TokenCount(calls=6, prompt=30, completion=3) and counts.spent(5) == TokenCount()
    assert (counts.seconds, counts.metric_seconds) == (8.0, 2.0)
