"""What came of each task: the closest wrong answer, and a reward per iteration, whatever order samples finish in."""

import random
from typing import Any

from optimizers.attempt import Attempt
from optimizers.iteration_counts import Trials
from optimizers.strategies.base import Trial


def attempt(task: str, score: float | None, answer: str = "", **fields: Any) -> Attempt:
    place = {"iteration": 0, "task": 0, "task_key": task, "temperature": 0.4, "sample": 0, "seed": 0}
    outputs = {"answer": answer} if answer else {}
    return Attempt(**place | {"outputs": outputs, "score": score, "passed": score == 1.0} | fields)


def closeness(attempt: Attempt) -> float:
    return attempt.score or 0.0


FIRST = [
    attempt("a", 0.25, "far"),
    attempt("a", 0.5, "near", sample=3),
    attempt("a", 0.5, "near, later", sample=4),
    attempt("a", 0.5, "near, hotter", temperature=1.0),
    attempt("a", 1.0, "right"),
    attempt("a", None),
    attempt("b", 0.0),
]


def test_the_closest_wrong_answer_represents_a_task() -> None:
    """An attempt without an answer counts for nothing; the mean reward is over scored ones."""
    for seed in range(5):
        trials = Trials(closeness)
        for each in random.Random(seed).sample(FIRST, len(FIRST)):
            trials.add(each)
        assert trials.nearest_misses == {} and trials.finished == [], "nothing changes within an iteration"
        trials.finish_iteration({"a": ("x",), "b": (), "c": ()})
        assert trials.nearest_misses == {"a": {"answer": "near"}}
        assert trials.finished == [Trial("a", ("x",), 0.55), Trial("b", (), 0.0), Trial("c", (), 0.0)]


def test_a_later_miss_replaces_one_that_is_not_closer() -> None:
    trials = Trials(closeness)
    for score, answer, expected in ((0.5, "one", "one"), (0.5, "two", "two"), (0.4, "three", "two")):
        trials.add(attempt("a", score, answer))
        trials.finish_iteration({"a": ()})
        assert trials.nearest_misses["a"] == {"answer": expected}
