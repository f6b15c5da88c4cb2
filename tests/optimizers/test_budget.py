"""A budget, of time too: a limit is reached by what equals it, and failures are too many only beyond their share."""

import asyncio
import threading
import time

import dspy
import pytest
from dspy import lm15

from optimizers import Budget, TokenCount
from optimizers.budget import Spending
from optimizers.call_metric import JUDGE
from optimizers.ledger import Ledger
from optimizers.requests import Deadline, DeadlineReached
from tests.support.scripted_program import ScriptedEngine, learn


@pytest.mark.parametrize(
    ("budget", "below", "exactly"),
    [
        (Budget(tokens=10), (TokenCount(prompt=6, completion=3), 0), (TokenCount(prompt=6, completion=4), 0)),
        (Budget(usd=0.5), (TokenCount(usd=0.4999), 0), (TokenCount(usd=0.5), 0)),
        (Budget(minutes=2), (TokenCount(), 119.999), (TokenCount(), 120.0)),
    ],
)
def test_a_limit_is_reached_exactly_at_its_value(
    budget: Budget, below: tuple[TokenCount, float], exactly: tuple[TokenCount, float]
) -> None:
    assert budget.reached(*below) is None
    assert budget.reached(*exactly) is not None


def test_a_limit_of_zero_is_reached_at_once_and_none_never() -> None:
    for limit in ("tokens", "usd", "minutes"):
        assert Budget(**{limit: 0}).reached(TokenCount(), 0.0) is not None
    assert Budget().reached(TokenCount(prompt=10**12, usd=1e9), 1e9) is None


def test_failures_are_too_many_beyond_their_share_and_not_at_it() -> None:
    budget = Budget(failures=0.25)
    assert not budget.too_many_failures(8, 32, 100) and budget.too_many_failures(9, 32, 100)
    assert not budget.too_many_failures(8, 1, 100), "judged on 32 samples at least"
    assert budget.too_many_failures(2, 1, 4) and not budget.too_many_failures(1, 1, 4), "or all of a smaller iteration"
    assert not budget.too_many_failures(25, 100, 100) and budget.too_many_failures(26, 100, 100)


def test_a_limit_of_iterations_allows_exactly_that_many() -> None:
    counts = [
        len(learn("ax", lambda task, demos, visit: task == "a", budget=Budget(iterations=limit)).experience.iterations)
        for limit in (0, 1, 2)
    ]
    assert counts == [0, 1, 2]


@pytest.mark.parametrize(
    ("minutes", "seconds", "message"),
    [(0.02, 1.2, "0.020 minutes of 0.02"), (90, 5430.5, "90.5 minutes of 90"), (0, 0.0, "0.000 minutes of 0")],
)
def test_the_message_on_a_budget_of_minutes_has_digits_enough(minutes, seconds, message):
    assert Budget(minutes=minutes).reached(TokenCount(), seconds) == message


def test_bad_budgets_are_refused():
    with pytest.raises(ValueError, match="tokens: expected greater than or equal to 0, found -1"):
        Budget(tokens=-1)
    with pytest.raises(ValueError, match="failures: expected less than or equal to 1"):
        Budget(failures=2)


def test_a_budget_is_limited_if_any_limit_ends_a_run() -> None:
    """Limits on prompts end none."""
    assert not Budget(context=10, demo_tokens=10).limited
    for limit in ("iterations", "tokens", "usd", "minutes"):
        assert Budget(**{limit: 1}).limited


def test_samples_and_overhead_add_up_per_predictor() -> None:
    """A predictor that both use has one count; the overhead's own count stays as it is."""
    overhead = Ledger()
    overhead.merge({"propose": TokenCount(calls=1, prompt=10), JUDGE: TokenCount(calls=1, prompt=100)})
    spending = Spending(Budget(), overhead)
    spending.add({"propose": TokenCount(calls=1, prompt=5, completion=2)})
    assert spending.tokens["propose"] == TokenCount(calls=2, prompt=15, completion=2)
    assert spending.tokens[JUDGE].prompt == 100
    assert spending.overhead_input == 10
    assert overhead.counts["propose"].prompt == 10


def test_tokens_of_a_judge_count_towards_its_own_limit_only() -> None:
    """A run that is judged by an LM ends when its own tokens, or those of the judge, reach a limit."""
    spending = Spending(Budget(tokens=8, judge_tokens=50))
    spending.add({"propose": TokenCount(prompt=7), JUDGE: TokenCount(prompt=49)})
    assert spending.reached() is None
    spending.add({"propose": TokenCount(completion=1)})
    assert spending.reached() == "8 tokens of 8"
    judged = Spending(Budget(tokens=8, judge_tokens=50))
    judged.add({JUDGE: TokenCount(prompt=50)})
    assert judged.reached() == "50 tokens of the LM judge of 50"


PAST = 0.0

FAR = 10_000.0


def after(seconds: float) -> Deadline:
    return Deadline(time.monotonic() + seconds)


def test_a_call_in_time_gives_its_result_and_its_error_in_the_callers_context() -> None:
    with dspy.context(trace=["mine"]):
        assert after(FAR).run(lambda: dspy.settings.trace) == ["mine"]
    with pytest.raises(ZeroDivisionError):
        after(FAR).run(lambda: 1 // 0)


def test_after_it_nothing_is_called() -> None:
    called = []
    with pytest.raises(DeadlineReached):
        after(PAST).run(lambda: called.append(1))
    assert not called


def test_a_coroutine_ends_with_it() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlineReached):
        asyncio.run(after(0.05).arun(never))


def test_a_run_whose_lm_does_not_answer_ends_by_its_budget() -> None:
    """One of eight requests lasts forever; the run waits for it until its time is over."""
    going = threading.Event()

    class Stuck(ScriptedEngine):
        asked = 0

        def complete(self, request: lm15.Request) -> lm15.Response:
            with self.lock:
                self.asked += 1
                stuck = self.asked == 3
            if stuck:
                going.wait(600)
            return super().complete(request)

    compiled = learn("ab", lambda *_: 4, engine=Stuck(lambda *_: 4, 4), budget=Budget(minutes=0.02), threads=2)
    going.set()
    experience = compiled.experience
    assert experience.stopped == "budget" and "minutes of 0.02" in experience.message
    unscored = [attempt for attempt in experience.attempts if not attempt.scored]
    assert {str(attempt.error).partition(":")[0] for attempt in unscored} == {"DeadlineReached"}
