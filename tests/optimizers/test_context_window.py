"""What an LM says that finds a prompt too long is understood in the words of any server, and what fits leaves room."""

import pytest
from dspy.utils.exceptions import ContextWindowExceededError, LMInvalidRequestError, LMRateLimitError

from optimizers.context_window import Window, as_too_long, is_too_long, request_characters, stated
from optimizers.ledger import TokenCount
from tests.support.faults import too_long

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
