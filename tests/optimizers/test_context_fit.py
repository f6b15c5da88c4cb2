"""What a run learns of its LM's context window holds these:

- demonstrations that are refused as too long are left out, easiest first, and the request is made again;
- an LM elsewhere refuses one request, not every one, and what it says holds from then on;
- only what is too long without any demonstration gets no answer, and is not asked again;
- a run that is resumed ends as one that was not interrupted.
"""

from collections.abc import Callable
from typing import Any

import dspy
import pytest
from dspy import lm15

from optimizers import AdaptiveFewShot, Budget, Domain
from optimizers.context_fit import ContextFit, Refusal
from optimizers.context_window import Window
from optimizers.sampling import TaskExample
from tests.support.scripted_program import ScriptedEngine, Solver, by_task, is_right, learn, tasks

RATES = {"a": 1, "b": 2, "c": 3}


def rated(task: str, demos: tuple[str, ...], visit: int) -> int:
    return RATES.get(task[0], 0)


class Narrow(ScriptedEngine):
    """Refuses prompts with more than so many demonstrations, or of some task."""

    def __init__(self, most: int, words: str, never: str = "") -> None:
        super().__init__(rated, 4)
        self.most, self.words, self.never, self.refused = most, words, never, 0

    def complete(self, request: lm15.Request) -> lm15.Response:
        demos = (len(request.messages) - 1) // 2
        if demos > self.most or (self.never and f"\n{self.never}\n" in (request.messages[-1].text or "")):
            with self.lock:
                self.refused += 1
            raise lm15.InvalidRequestError(self.words, status=400)
        return super().complete(request)


@pytest.mark.parametrize("words", ["prompt is too long: 90000 tokens > 80000 maximum", "Input is too long."])
def test_demonstrations_that_are_refused_are_left_out_easiest_first_and_the_run_continues(words: str) -> None:
    engine = Narrow(1, words)
    compiled = learn("abcx", rated, engine=engine, granularity=1)
    assert compiled.experience.stopped == "exhausted" and engine.refused
    later = [attempt for attempt in compiled.experience.attempts if attempt.iteration]
    assert all(attempt.scored for attempt in later) and later[0].left_out == 2
    assert not any(result.unanswered for result in compiled.experience.iterations)


def test_a_task_that_is_too_long_without_demonstrations_is_asked_in_one_iteration_only() -> None:
    engine = Narrow(9, "Input is too long.", never="x")
    compiled = learn("abx", rated, engine=engine, granularity=1)
    record = compiled.experience
    assert engine.refused == 4 and record.iterations[0].unanswered == ("x",)
    assert len(record.iterations) == 1 and record.stopped == "exhausted"
    assert "too long for the LM, even without demonstrations: x" in record.message
    assert all(attempt.too_long for attempt in record.attempts if attempt.task_key == "x")


def test_an_lm_that_finds_everything_too_long_cannot_be_used() -> None:
    with pytest.raises(Exception, match="Input is too long"):
        learn("abx", rated, engine=Narrow(-1, "Input is too long."))


def elsewhere(monkeypatch: pytest.MonkeyPatch, answer: Callable[[lm15.Request], lm15.Response]) -> dspy.LM:
    """An LM whose native engine answers in this process."""
    lm = dspy.LM("openai/some", cache=False, num_retries=0, api_key="any")
    monkeypatch.setattr("dspy.clients.engines.lm15_engine.LM15Engine.complete", lambda self, request: answer(request))
    return lm


@pytest.mark.parametrize("words", ["prompt is too long: 90000 tokens > 80000 maximum", "Input is too long."])
def test_an_lm_elsewhere_refuses_one_request_after_the_other_and_all_tasks_are_shown_the_same(
    monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    engine = Narrow(1, words)
    lm = elsewhere(monkeypatch, engine.complete)

    def run(threads: int, resume: Any = ()) -> Any:
        domain = Domain(task_key=by_task)
        optimizer = AdaptiveFewShot(is_right, 4, 1, temperatures=(0.7,), threads=threads, domain=domain)
        engine.drawn.clear()
        with dspy.context(lm=lm):
            return optimizer.compile(Solver(), trainset=tasks("abcxyz"), resume=resume).experience

    whole = run(8)
    assert engine.refused <= 3, "not one of each of the 12 samples"
    assert [len(result.demos) for result in whole.iterations] == [0, 1]
    assert [set(result.left_out) for result in whole.iterations] == [set(), {"b", "c"}]
    assert len(whole.demos) == 1 and not any(result.failures for result in whole.iterations)
    again = run(1, tuple(whole.attempts)[: len(whole.attempts) - 5])
    assert [result.demos for result in again.iterations] == [result.demos for result in whole.iterations]
    assert [attempt.left_out for attempt in again.attempts] == [attempt.left_out for attempt in whole.attempts]


def test_the_most_demonstrations_are_as_many_as_allowed() -> None:
    compiled = learn("abcx", rated, granularity=1, budget=Budget(demos=2))
    assert [len(result.demos) for result in compiled.experience.iterations] == [0, 2]
    assert [demo.task for demo in compiled.solve.demos] == ["a", "b"]


def test_a_limit_that_contradicts_an_accepted_prompt_is_not_believed() -> None:
    fit, window = ContextFit(None, accepted=1000), Window(ratio=0.5)
    task = TaskExample(0, "a", dspy.Example())
    fit.learn(task, [Refusal(False, 2000, 400)], window)
    assert (fit.tokens, fit.refused) == (None, 2000)
    fit.learn(task, [Refusal(False, 1500, 900)], window)
    assert (fit.tokens, fit.refused) == (900, 1500)
