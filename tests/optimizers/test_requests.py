"""The requests of a sample: when one is made again, after what wait, with which seed, and what a refusal says."""

import io

import dspy
import pytest
from dspy import lm15
from dspy.clients.base_lm import GLOBAL_HISTORY
from dspy.utils.exceptions import (
    ContextWindowExceededError,
    LMError,
    LMInvalidRequestError,
    LMRateLimitError,
)

from optimizers import AdaptiveFewShot
from optimizers.requests import (
    KEPT,
    as_too_long,
    retry_after,
)
from tests.support.faults import too_long
from tests.support.scripted_program import ScriptedEngine, Solver, is_right, learn, some, tasks


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
    assert lm.history[-1] == GLOBAL_HISTORY[-1] and "x" in str(lm.history[-1]["messages"][-1])
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


class Voting(dspy.Module):
    """Asks five times, one after another or at once."""

    def __init__(self, threads: int) -> None:
        super().__init__()
        self.solver, self.threads = Solver(), threads

    def forward(self, task: str) -> dspy.Prediction:
        if self.threads == 1:
            return [self.solver(task=task) for _ in range(5)][-1]
        parallel = dspy.Parallel(num_threads=self.threads, disable_progress_bar=True)
        return parallel([(self.solver, dspy.Example(task=task).with_inputs("task"))] * 5)[-1]


def sent(student: dspy.Module, threads: int) -> list[int]:
    engine = ScriptedEngine(lambda *_: 0, 4)
    learn("ab", lambda *_: 0, engine=engine, student=student, n=2, threads=threads)
    return sorted(request.config.seed or 0 for request in engine.requests)


def test_a_module_that_votes_gets_five_seeds_in_every_sample_whatever_the_threads() -> None:
    found = sent(Voting(1), 1)
    assert len(set(found)) == len(found) == 2 * 2 * 5
    assert sent(Voting(1), 8) == found


def test_a_module_that_asks_at_once_gets_as_many_and_the_same_every_time() -> None:
    found = sent(Voting(4), 1)
    assert len(set(found)) == len(found) == 2 * 2 * 5
    assert sent(Voting(4), 4) == found


def test_best_of_n_sends_n_seeds() -> None:
    class Best(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.best = dspy.BestOfN(Solver(), N=4, reward_fn=lambda inputs, prediction: 0.0, threshold=1.0)

        def forward(self, task: str) -> dspy.Prediction:
            return self.best(task=task)

    found = sent(Best(), 2)
    assert len(set(found)) == len(found) == 2 * 2 * 4


def test_completions_of_one_call_differ_with_an_engine_of_one_s_own() -> None:
    """Each is a request with a seed of its own."""

    class Several(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.solve = dspy.Predict("task -> answer", n=5)

        def forward(self, task: str) -> dspy.Prediction:
            return self.solve(task=task)

    seen: list[int] = []

    def say(request: lm15.Request, task: str, right: bool) -> str:
        seen.append(request.config.seed or 0)
        return f"[[ ## answer ## ]]\nof {request.config.seed}\n\n[[ ## completed ## ]]"

    answers = []
    learn(
        "a", some, n=2, student=Several(), engine=ScriptedEngine(some, 2, say),
        metric=lambda example, prediction: answers.append(prediction.completions.answer) or False,
    )  # fmt: skip
    assert len(set(seen)) == len(seen) == 10
    assert [len(set(each)) for each in answers] == [5, 5]


WORDS = [
    *(too_long(name, 8192, 6144, 4096).message for name in ("openai", "vllm", "llama.cpp", "anthropic", "tgi")),
    "input length and `max_tokens` exceed context limit: 199000 + 4096 > 200000, decrease input length",
    "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    "Prompt contains 40000 tokens and 0 draft tokens, too large, 32768 maximum context length",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000",
    "prompt is too long: 200,251 tokens > 200,000 maximum",
    "Input is too long for requested model.",
    "the request exceeds the available context size. try increasing the context size",
]


@pytest.mark.parametrize("message", WORDS)
def test_a_refusal_for_length_becomes_dspys_own_class_in_whatever_words(message: str) -> None:
    plain = LMInvalidRequestError(message, status=400)
    found = as_too_long(plain)
    assert isinstance(found, ContextWindowExceededError) and found.__cause__ is plain and found.status == 400


@pytest.mark.parametrize(
    "error",
    [
        LMInvalidRequestError("a word that is not allowed", status=400),
        LMInvalidRequestError("n: only 1 is allowed", status=400),
        LMInvalidRequestError("'temperature' must be less than 2", status=400),
        LMInvalidRequestError("max_tokens is too large: 100000. This model supports at most 16384 completion tokens"),
        LMRateLimitError("Request too large: tokens exceed the limit 30000", status=429),
    ],
)
def test_another_refusal_is_none(error: LMError) -> None:
    assert as_too_long(error) is error
