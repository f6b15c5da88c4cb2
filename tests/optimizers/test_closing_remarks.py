"""What the result of a run does not show is said."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dspy
import pytest

from optimizers import Budget
from tests.support.scripted_program import ScriptedEngine, Solver, learn


def test_a_pass_that_the_budget_cuts_short_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """How much of it was sampled; a budget that ends between two passes, or the control's, is no surprise."""
    learn("ab", lambda *_: 0, budget=Budget(calls=3), threads=1)
    assert caplog.messages == ["budget: budget reached: 3 requests of 3; iteration 1, None, had 3 of its 8 samples"]
    caplog.clear()
    learn("ab", lambda *_: 0, budget=Budget(iterations=1))
    learn("ab", lambda *_: 0, budget=Budget(calls=11), selection="resample")
    assert not caplog.messages


def test_async_tools_that_only_the_run_could_call_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """A coroutine function, and an object that is called as one, behind a program's own module."""

    async def look(q: str) -> str:
        """Looks it up."""
        return q

    class Search:
        async def __call__(self, q: str) -> str:
            return q

    class Holder(Solver):
        def __init__(self) -> None:
            super().__init__()
            self.kit = {"all": [dspy.Tool(look), dspy.Tool(Search(), name="search"), dspy.Tool(len, name="length")]}

    learn("a", lambda *_: 4, student=Holder())
    (warning,) = caplog.messages
    assert "are coroutines (look, search);" in warning and "allow_tool_async_sync_conversion=True" in warning
    caplog.clear()
    with dspy.context(allow_tool_async_sync_conversion=True):
        learn("a", lambda *_: 4, student=Holder())
    assert not caplog.messages


def test_requests_that_no_run_can_count_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """A thread of the program's own sees the global settings, not those of the run."""

    class Threaded(Solver):
        def forward(self, task: str) -> Any:
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(dspy.Predict("task -> answer").__call__, task=task, lm=lm).result()

    engine = ScriptedEngine(lambda *_: 4, 4)
    lm = dspy.LM("scripted", engine=engine, cache=False)
    compiled = learn("ab", lambda *_: 4, student=Threaded())
    assert engine.calls == 8 and compiled.experience.tokens == {}
    assert "no request of the program was counted" in caplog.text
