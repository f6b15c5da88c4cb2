"""Sampling until solved: no more samples than needed, the same answer whatever the threads, and nothing lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dspy
import pytest
from dspy import lm15
from dspy.utils.exceptions import LMAuthError

from optimizers import Budget, Sampling
from optimizers.sampling import Sampler
from optimizers.until_solved import UntilSolved, sample_until_solved
from tests.support.scripted_program import ScriptedEngine, Solver, is_right, tasks


def late(task: str, demos: tuple[str, ...], visit: int) -> int:
    return {"a": 8, "b": 8}.get(task, 0)


def sample(
    names: str, engine: Any = None, on_solved: Callable[[str], None] = lambda name: None, **options: Any
) -> UntilSolved:
    """Eight samples at most, one at a time."""
    budget = options.pop("budget", None)
    sampler = Sampler(is_right, Sampling(**{"num_samples": 8, "temperatures": (0.7,), "threads": 1, **options}))
    examples = {example.task: example for example in tasks(list(names))}
    lm = dspy.LM("scripted", engine=engine or ScriptedEngine(late, 8), cache=False, num_retries=0)
    with dspy.context(lm=lm):
        return sample_until_solved(Solver(), examples, sampler, on_solved, budget)


def test_a_task_is_sampled_until_it_is_solved_and_no_more() -> None:
    solved: list[str] = []
    sampled = sample("abx", on_solved=solved.append)
    assert {name: len(attempts) for name, attempts in sampled.attempts.items()} == {"a": 1, "b": 1, "x": 8}
    assert (solved, sampled.stopped, sampled.found("x")) == (["a", "b"], None, None)


def test_the_answer_found_is_the_first_in_the_order_of_sampling() -> None:
    class Second(ScriptedEngine):
        def complete(self, request: lm15.Request) -> lm15.Response:
            self.script = lambda task, demos, visit: 8 if (request.config.seed or 0) % 3 == 0 else 0
            return super().complete(request)

    found = [sample("a", Second(late, 8), temperatures=(0.4, 0.7), threads=threads).found("a") for threads in (1, 3)]
    assert found[0] and found[1]
    assert (found[0].temperature, found[0].sample) == (found[1].temperature, found[1].sample)


def test_a_budget_ends_it_with_what_was_found() -> None:
    sampled = sample("ax", budget=Budget(tokens=1))
    assert (sampled.stopped, len(sampled.attempts["a"]), len(sampled.attempts["x"])) == ("budget", 1, 0)
    assert sampled.message.startswith("budget reached: ") and sampled.found("a")


def test_an_interrupt_keeps_what_was_found() -> None:
    def interrupt(name: str) -> None:
        raise KeyboardInterrupt

    sampled = sample("ax", on_solved=interrupt)
    assert (sampled.stopped, sampled.message) == ("interrupted", "interrupted") and sampled.found("a")


def test_an_lm_that_fails_later_ends_it_and_one_that_fails_at_once_raises() -> None:
    class Failing(ScriptedEngine):
        after = 3

        def complete(self, request: lm15.Request) -> lm15.Response:
            if self.calls >= self.after:
                raise lm15.AuthError("the key was revoked")
            return super().complete(request)

    engine = Failing(late, 8)
    sampled = sample("ax", engine)
    assert (sampled.stopped, len(sampled.attempts["x"])) == ("failed", 3)
    assert sampled.message == "LMAuthError: [scripted] the key was revoked"
    engine.after = 0
    with pytest.raises(LMAuthError):
        sample("x", engine)
