"""What a request used holds these: a report that cannot be right is estimated and labelled, and loses no answer."""

from typing import Any

import dspy
import pytest
from dspy.lm15 import ImagePart, Message, Request

from optimizers.context_window import request_characters
from optimizers.ledger import TokenCount
from optimizers.prompt_sizes import prompt_size
from optimizers.usage import MEDIUM, Price, RequestMeter, _truncated, no_answer, reported, whole


def meter(usage: dict[str, Any] | None, *, cost: float | None = None, **lm: Any) -> RequestMeter:
    """Of a request of 300 characters, answered with 30."""
    found = RequestMeter(type("LM", (), lm)(), None)
    found.entry = {
        "response": object(), "messages": [{"content": "x" * 200}, {"content": [{"text": "y" * 100}]}],
        "prompt": None, "outputs": [{"text": "z" * 30}], "cost": cost,
    }  # fmt: skip
    if usage is not None:
        found.add_usage("m", usage)
    return found


def test_pictures_count_as_tokens() -> None:
    """As many as providers count, about; so a report of them is believed, and a prompt with many does not fit."""

    class Look(dspy.Signature):
        pictures: list[dspy.Image] = dspy.InputField()
        name: str = dspy.OutputField()

    example = dspy.Example(pictures=[dspy.Image("https://a.test/1.png")] * 20).with_inputs("pictures")
    bare = example.copy(pictures=[]).with_inputs("pictures")
    predictor = dspy.Predict(Look)
    assert 4000 * 20 <= prompt_size(predictor, [], example) - prompt_size(predictor, [], bare) <= 4100 * 20
    seen = meter({"prompt_tokens": 21_000, "completion_tokens": 5})
    seen.entry["messages"] = dspy.ChatAdapter().format(Look, [], dict(example.inputs()))  # type: ignore[index]
    assert (seen.count().prompt, seen.count().estimated) == (21_000, 0)
    request = Request(model="m", messages=(Message("user", (ImagePart(url="https://a.test/1.png"),)),))
    assert request_characters((request,), {}) == len(MEDIUM)


def test_usage_is_read_under_the_names_of_either_api() -> None:
    chat = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    responses = {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": None}
    assert reported(chat) == TokenCount(prompt=9, completion=2, provider_cached=4)
    assert reported(responses) == TokenCount(prompt=9, completion=2)
    assert reported({}) == TokenCount()


def test_completions_that_were_cut_off_are_counted_in_whatever_form() -> None:
    ended = type("Response", (), {"finish_reason": "length"})()
    chosen = {"choices": [{"finish_reason": "length"}, {"finish_reason": "stop"}, {"finish_reason": "length"}]}
    assert (_truncated(ended), _truncated((ended, ended)), _truncated(chosen), _truncated(object())) == (1, 2, 2, 0)


@pytest.mark.parametrize(
    ("value", "number"), [("12", 12), (12.0, 12), (0, 0), (-1, None), ("many", None), (True, None), ("inf", None)]
)
def test_a_count_is_a_whole_number_however_it_is_written(value: Any, number: int | None) -> None:
    assert whole(value) == number


@pytest.mark.parametrize(
    ("usage", "prompt", "completion", "estimated"),
    [
        ({"prompt_tokens": 80, "completion_tokens": 9}, 80, 9, 0),
        ({"prompt_tokens": "80", "completion_tokens": "9"}, 80, 9, 0),
        ({}, 100, 10, 110),
        ({"prompt_tokens": 80, "completion_tokens": -9}, 80, 10, 10),
        ({"prompt_tokens": 10**12, "completion_tokens": 9}, 100, 9, 100),
        ({"prompt_tokens": 80, "completion_tokens": 10**9}, 80, 10, 10),
        ({"prompt_tokens": 80, "completion_tokens": 500}, 80, 500, 0),  # reasoning is not in the text
    ],
)
def test_what_cannot_be_right_is_estimated_dimension_by_dimension(
    usage: dict[str, Any], prompt: int, completion: int, estimated: int
) -> None:
    """With the LM's own tokenizer where it has one; only what was reported teaches the ratio."""
    count = meter(usage).count()
    assert (count.prompt, count.completion, count.estimated) == (prompt, completion, estimated)
    known = "prompt_tokens" in usage and prompt == 80
    assert (count.measured_tokens, count.measured_chars) == ((80, 300) if known else (0, 0))
    exact = meter(usage, count_tokens=len).count()
    assert (exact.prompt, exact.completion) == (prompt if known else 300, completion if completion != 10 else 30)


def test_an_answer_from_the_cache_whose_usage_was_not_kept_is_estimated_and_free() -> None:
    count = meter(None).count()
    assert (count.cached_prompt, count.cached_completion, count.total, count.usd) == (100, 10, 0, 0.0)
    assert count.cache_hits == 1 and not count.measured_chars


def test_a_price_is_used_where_none_is_known_and_one_that_is_given_always() -> None:
    usage = {"prompt_tokens": 80, "completion_tokens": 9}
    fallback, given = Price(1e6, 2e6), Price(1e6, 2e6, given=True)
    assert (meter(usage).count().usd, meter(usage).count().unpriced) == (0.0, 1)
    assert (meter(usage, cost=0.5).count().usd, meter(usage, cost=0.5, price=fallback).count().usd) == (0.5, 0.5)
    assert meter(usage, price=fallback).count().usd == 98.0
    assert meter(usage, cost=0.5, price=given).count().usd == 98.0
    assert meter({}, cost=0.5, price=fallback).count().usd == 120.0, "the cost is computed from the absurd report"


@pytest.mark.parametrize(
    ("response", "why"),
    [
        ({"choices": []}, "no choices"),
        ({"choices": [{"finish_reason": "content_filter"}]}, "content_filter"),
        ({"choices": [{"finish_reason": "content_filter"}, {"finish_reason": "stop"}]}, None),
        ({"choices": [{"finish_reason": "length"}]}, None),
        (type("R", (), {"finish_reason": "stop", "provider_data": {"choices": []}})(), "no choices"),
        (type("R", (), {"finish_reason": "stop", "provider_data": {"choices": [{}]}})(), None),
        (type("R", (), {"finish_reason": "content_filter", "provider_data": None})(), "content_filter"),
    ],
)
def test_a_reply_without_an_answer_says_why(response: Any, why: str | None) -> None:
    found = no_answer(response)
    assert (found is None) if why is None else (found is not None and why in found)
