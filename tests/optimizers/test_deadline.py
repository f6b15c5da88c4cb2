"""No request lasts beyond the run's deadline, and what it leaves behind is no answer and no failure of the LM's."""

import asyncio
import threading
import time

import dspy
import pytest
from dspy import lm15

from optimizers import Budget
from optimizers.deadline import Deadline, DeadlineReached
from tests.support.scripted_program import ScriptedEngine, learn

PAST = 0.0
FAR = 10_000.0


def after(seconds: float) -> Deadline:
    return Deadline(time.monotonic() + seconds)


def test_a_call_in_time_gives_its_result_and_its_error_in_the_callers_context() -> None:
    with dspy.context(trace=["mine"]):
        assert after(FAR).run(lambda: dspy.settings.trace) == ["mine"]
    with pytest.raises(ZeroDivisionError):
        after(FAR).run(lambda: 1 // 0)


def test_a_call_that_never_ends_is_left_behind() -> None:
    going = threading.Event()
    with pytest.raises(DeadlineReached):
        after(0.05).run(lambda: going.wait(600))
    going.set()


def test_after_it_nothing_is_called() -> None:
    called = []
    with pytest.raises(DeadlineReached):
        after(PAST).run(lambda: called.append(1))
    assert not called and after(PAST).shortened(5.0) == 0.0 and after(FAR).shortened(5.0) == 5.0


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
