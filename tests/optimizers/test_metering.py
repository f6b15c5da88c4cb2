"""When a request is made again, and after what wait: the provider's word counts, wherever it stands, within a bound."""

import copy
import io
import threading
from typing import Any

import dspy
import pytest
from dspy import lm15
from dspy.clients.base_lm import GLOBAL_HISTORY
from dspy.utils.exceptions import (
    LMAuthError,
    LMError,
    LMInvalidRequestError,
    LMProviderError,
    LMRateLimitError,
    LMServerError,
    LMTransportError,
)

from optimizers import AdaptiveFewShot
from optimizers.ledger import Ledger
from optimizers.metering import KEPT, LONGEST_WAIT, RequestSlots, _wait, is_transient, metered, retry_after
from tests.support.scripted_program import ScriptedEngine, Solver, is_right, learn, some, tasks


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (LMRateLimitError("slow down", status=429), True),
        (LMServerError("on fire", status=500), True),
        (LMTransportError("reset"), True),
        (LMProviderError("the reply is not JSON", status=200), True),
        (LMProviderError("no", status=418), False),
        (LMInvalidRequestError("no", status=400), False),
        (LMAuthError("no", status=200), False),
        (ValueError("no"), False),
    ],
)
def test_transient_errors_are_distinguished_from_lasting_ones(error: Exception, transient: bool) -> None:
    assert is_transient(error) is transient


class Carrying(Exception):
    """An error of a client's own, with the response that it had."""

    def __init__(self, **headers: str) -> None:
        self.response = type("Response", (), {"headers": headers})()


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"retry-after": "7"}, 7.0), ({"retry-after": "soon"}, None), ({"retry-after": "-1"}, None), ({}, None)],
)
def test_the_wait_is_found_in_the_cause_where_litellm_left_it(headers: dict[str, str], seconds: float | None) -> None:
    error = LMRateLimitError("slow down")
    error.__cause__ = Carrying(**headers)
    assert retry_after(error) == seconds


def test_the_wait_that_is_asked_for_goes_before_what_the_cause_says() -> None:
    error = LMRateLimitError("slow down", retry_after=3.0)
    error.__cause__ = Carrying(**{"retry-after": "7"})
    assert retry_after(error) == 3.0
    assert 3.0 <= _wait(error, 4) <= 4.0


def test_waits_double_and_differ() -> None:
    error: LMError = LMServerError("on fire")
    waits = [[_wait(error, attempt) for _ in range(20)] for attempt in range(6)]
    assert all(2.0**attempt / 2 <= wait <= 2.0**attempt for attempt, each in enumerate(waits) for wait in each)
    assert all(len(set(each)) == 20 for each in waits)


def test_a_wait_beyond_the_bound_is_a_failure_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optimizers.metering._wait", lambda error, attempt: 0.0)

    class Busy(ScriptedEngine):
        asked = 0

        def complete(self, request: Any) -> Any:
            with self.lock:
                self.asked += 1
                if self.asked <= 2:
                    raise lm15.RateLimitError("slow down", retry_after=LONGEST_WAIT + (self.asked == 1))
            return super().complete(request)

    engine = Busy(lambda *_: 8, 8)
    compiled = learn("a", lambda *_: 8, engine=engine, n=8, threads=1)
    assert [attempt.scored for attempt in compiled.experience.attempts] == [False] + [True] * 7
    assert engine.asked == 1 + 1 + 7


def test_a_request_that_waits_to_be_repeated_holds_nobody_up() -> None:
    """Two threads, one request at a time: while the first waits, the second is answered."""
    slots, log = RequestSlots(1), []
    assert copy.deepcopy(slots) is slots
    started, answered = threading.Event(), threading.Event()

    class Engine(ScriptedEngine):
        asked = 0

        def complete(self, request: Any) -> Any:
            self.asked += 1
            log.append(self.asked)
            started.set()
            if self.asked == 1:
                raise lm15.ServerError("on fire")
            answered.set()
            return super().complete(request)

    def sleep(error: LMError, attempt: int) -> float:
        assert answered.wait(120)
        return 0.0

    with pytest.MonkeyPatch.context() as patch, dspy.context(usage_tracker=None):
        patch.setattr("optimizers.metering._wait", sleep)
        original = dspy.LM("scripted", engine=Engine(lambda *_: 1, 1), cache=False, num_retries=1)
        lms = [metered(original, Ledger(), lambda callers: "x", slots) for _ in range(2)]
        prompt = "[[ ## task ## ]]\na\n\n"
        first = threading.Thread(target=lms[0], args=(prompt,))
        first.start()
        assert started.wait(120)
        lms[1](prompt)
        first.join(120)
    assert log == [1, 2, 3]


def test_requests_of_lms_that_modules_and_adapters_hold_are_counted():
    """As of a predictor's own; an adapter's keeps its temperature, since it only reads what was answered."""
    engine, held, extracting = (ScriptedEngine(lambda *_: 4, 4) for _ in range(3))

    class Holding(Solver):
        def __init__(self):
            super().__init__()
            self.lms = {"other": dspy.LM("held", engine=held, cache=False)}

        def forward(self, task):
            with dspy.context(lm=self.lms["other"]):
                self.solve(task=task)
            return self.solve(task=task)

    counts = learn("a", lambda *_: 4, student=Holding(), engine=engine).experience.tokens
    assert held.calls == engine.calls == 4 and counts["solve"].calls == 8
    assert {request.config.temperature for request in held.requests} == {0.7}

    class Extracting(dspy.ChatAdapter):
        def __init__(self, lm):
            super().__init__()
            self.lm = lm

        def parse(self, signature, completion):
            fields = self.lm("[[ ## task ## ]]\na")
            return super().parse(signature, fields[0])

    lm = dspy.LM("extracting", engine=extracting, cache=False, temperature=0.1)
    with dspy.context(adapter=Extracting(lm)):
        counts = learn("a", lambda *_: 4).experience.tokens
    assert extracting.calls == 4 and counts["solve"].calls == 8
    assert {request.config.temperature for request in extracting.requests} == {0.1}


def run(lm: dspy.LM, samples: int) -> None:
    with dspy.context(lm=lm):
        AdaptiveFewShot(is_right, samples, temperatures=(0.7,)).compile(Solver(), trainset=tasks("ax"))


def test_the_last_requests_are_in_the_histories_and_others_stay():
    """Whatever number of samples was made; what the user asked before and in between is not touched."""
    lm = dspy.LM("scripted", engine=ScriptedEngine(some, 4), cache=False)
    with dspy.context(lm=lm):
        Solver()(task="before")
    before = list(lm.history)
    run(lm, 80)
    assert len(lm.history) == 1 + KEPT and lm.history[0] is before[0]
    assert lm.history[-1] is GLOBAL_HISTORY[-1] and "x" in str(lm.history[-1]["messages"][-1])
    with dspy.context(lm=lm):
        Solver()(task="between")
    run(lm, 80)
    asked = [str(entry["messages"][-1]["content"]).split()[5] for entry in lm.history]
    assert asked[:2] == ["before", "between"] and len(asked) == 2 + KEPT
    shown = io.StringIO()
    lm.inspect_history(1, file=shown)
    assert "[[ ## answer ## ]]" in shown.getvalue()


def test_a_user_who_switched_histories_off_gets_none():
    lm, known = dspy.LM("scripted", engine=ScriptedEngine(some, 4), cache=False), len(GLOBAL_HISTORY)
    for setting in ({"disable_history": True}, {"max_history_size": 0}):
        with dspy.context(**setting):
            run(lm, 4)
    assert lm.history == [] and len(GLOBAL_HISTORY) == known
    with dspy.context(max_history_size=3):
        run(lm, 4)
    assert len(lm.history) == 3
