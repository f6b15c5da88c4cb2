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
from dspy.utils.exceptions import ContextWindowExceededError, LMInvalidRequestError, LMRateLimitError

from optimizers import AdaptiveFewShot, Budget, Domain
from optimizers.context_fit import ContextFit, Refusal
from optimizers.context_window import Window, as_too_long, is_too_long, request_characters, stated
from optimizers.ledger import TokenCount
from optimizers.prompt_sizes import demo_count, longest_prompt, longest_task, trimmed, with_fewer_demos
from optimizers.sampling import TaskExample
from tests.support.faults import too_long
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


WORDS = {
    **{
        name: (too_long(name, 8192, 6144, 4096).message, 8192)
        for name in ("openai", "vllm", "llama.cpp", "anthropic", "tgi")
    },
    "anthropic with an answer": (
        "input length and `max_tokens` exceed context limit: 199000 + 4096 > 200000, decrease input length", 200000,
    ),
    "sglang": ("The input (5000 tokens) is longer than the model's context length (4096 tokens).", 4096),
    "mistral": ("Prompt contains 40000 tokens and 0 draft tokens, too large, 32768 maximum context length", 32768),
    "gemini": ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1048576),
    "cohere": ("too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000", 4081),
    "commas": ("prompt is too long: 200,251 tokens > 200,000 maximum", 200000),
    "silent": ("Input is too long for requested model.", 0),
    "older llama.cpp": ("the request exceeds the available context size. try increasing the context size", 0),
}  # fmt: skip


@pytest.mark.parametrize("name", WORDS)
def test_a_refusal_for_length_is_one_in_whatever_words_and_states_its_limit(name: str) -> None:
    message, limit = WORDS[name]
    error = LMInvalidRequestError(message, status=400)
    assert is_too_long(error)
    found, excess = stated(error)
    assert found == limit and (excess > 0) == (limit > 0)


@pytest.mark.parametrize(
    "message",
    [
        "a word that is not allowed",
        "n: only 1 is allowed",
        "'temperature' must be less than 2",
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
    ],
)
def test_another_refusal_is_none(message: str) -> None:
    assert not is_too_long(LMInvalidRequestError(message, status=400))


def test_a_limit_on_tokens_per_minute_is_none() -> None:
    assert not is_too_long(LMRateLimitError("Request too large: tokens exceed the limit 30000", status=429))


def test_a_refusal_becomes_dspys_own_class_and_knows_how_long_the_prompt_was() -> None:
    plain = LMInvalidRequestError("prompt is too long: 9 tokens > 8 maximum", status=400)
    found = as_too_long(plain, 30)
    assert isinstance(found, ContextWindowExceededError) and found.__cause__ is plain
    assert getattr(found, "characters", 0) == 30 and found.status == 400
    other = LMInvalidRequestError("no", status=400)
    assert as_too_long(other, 30) is other


def test_what_fits_is_judged_by_the_lms_own_counts_and_leaves_room_for_the_answer() -> None:
    lm = type("LM", (), {"kwargs": {"max_tokens": 100}})()
    unknown, blind = Window.of(lm, None), Window.of(lm, 400)
    assert unknown.holds(10**9) and blind.holds(900) and not blind.holds(901)
    measured = Window.of(lm, 400, TokenCount(measured_tokens=50, measured_chars=200))
    assert measured.holds(1176) and not measured.holds(1177), "a quarter, and a margin of 2 %"
    assert not Window.of(lm, None, refused=50).holds(50) and Window.of(lm, None, refused=50).holds(49)


def test_the_size_of_a_request_is_that_of_its_messages() -> None:
    assert request_characters(("four",), {}) == 4
    assert request_characters((), {"messages": [{"content": "ab"}, {"content": [{"text": "cd"}, {"image": 1}]}]}) == 4
    from dspy.lm15 import Message, Request

    assert request_characters((Request(model="m", system="abc", messages=(Message.user("de"),)),), {}) == 5


SHOWN = [dspy.Example(task=name * 300, answer=f"right {name}", augmented=True) for name in "abc"]


def shown() -> Solver:
    program = Solver()
    program.solve.demos = list(SHOWN)
    return program


def test_sizes_grow_with_demonstrations_and_with_the_task() -> None:
    sizes = [longest_prompt(shown(), tasks("x"), count) for count in range(4)]
    assert sizes == sorted(sizes) and sizes[1] - sizes[0] > 300 and sizes[3] == longest_prompt(shown(), tasks("x"))
    assert longest_task(shown(), tasks(["x", "xxxx", "xx"])) == 1
    assert longest_prompt(shown(), tasks(["x", "xxxx"])) == longest_prompt(shown(), tasks(["xxxx"]))


def test_a_program_with_fewer_demonstrations_is_a_copy() -> None:
    program = shown()
    twin = with_fewer_demos(program, 1)
    assert (demo_count(program), demo_count(twin)) == (3, 1) and list(twin.predictors()[0].demos) == SHOWN[:1]


def test_as_many_are_kept_as_fit_and_are_allowed() -> None:
    program = shown()
    assert trimmed(program, tasks("x"), Window()) is program
    room = Window((longest_prompt(program, tasks("x"), 2) + 2) // 3)
    assert demo_count(trimmed(program, tasks("x"), room)) == 2
    assert demo_count(trimmed(program, tasks("x"), Window(), 1)) == 1
    assert demo_count(trimmed(program, tasks("x"), Window(1))) == 0
