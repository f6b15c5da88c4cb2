"""What a request used holds these: a report that cannot be right is estimated and labelled, and loses no answer."""

from dataclasses import replace
from typing import Any

import dspy
import pytest
from dspy import lm15

from optimizers import Budget
from optimizers.demonstrations import prompt_tokens
from optimizers.ledger import TokenCount
from optimizers.metering import Price, Request, _truncated, no_answer, reported
from tests.support.scripted_program import ScriptedEngine, learn, some


def counted(usage: dict[str, Any] | None, *, cost: float | None = None, **lm: Any) -> TokenCount:
    """Of a request of 300 characters, answered with 30."""
    request = Request("1", type("LM", (), lm)(), {})
    messages = [{"content": "x" * 200}, {"content": [{"text": "y" * 100}]}]
    outputs = [{"text": "z" * 30}]
    entry = {"response": object(), "messages": messages, "prompt": None, "outputs": outputs, "cost": cost}
    request.history.append(entry)
    if usage is not None:
        request.add_usage("m", usage)
    return request.count(outputs)


def test_pictures_count_as_tokens() -> None:
    """As many as providers count, about; so a report of them is believed, and a prompt with many does not fit."""

    class Look(dspy.Signature):
        pictures: list[dspy.Image] = dspy.InputField()
        name: str = dspy.OutputField()

    example = dspy.Example(pictures=[dspy.Image("https://a.test/1.png")] * 20).with_inputs("pictures")
    bare = example.copy(pictures=[]).with_inputs("pictures")
    predictor = dspy.Predict(Look)
    assert 1300 * 20 <= prompt_tokens(predictor, [], example) - prompt_tokens(predictor, [], bare) <= 1400 * 20
    request = Request("1", object(), {})
    messages = dspy.ChatAdapter().format(Look, [], dict(example.inputs()))
    request.history.append({"response": object(), "messages": messages, "prompt": None, "outputs": [], "cost": None})
    request.add_usage("m", {"prompt_tokens": 21_000, "completion_tokens": 5})
    assert (request.count([]).prompt, request.count([]).estimated) == (21_000, 0)


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
    """With the LM's own tokenizer where it has one."""
    count = counted(usage)
    assert (count.prompt, count.completion, count.estimated, count.short) == (prompt, completion, estimated, 0)
    known = "prompt_tokens" in usage and prompt == 80
    exact = counted(usage, count_tokens=len)
    assert (exact.prompt, exact.completion) == (prompt if known else 300, completion if completion != 10 else 30)


def test_an_answer_from_the_cache_whose_usage_was_not_kept_is_estimated_and_free() -> None:
    count = counted(None)
    assert (count.cached_prompt, count.cached_completion, count.total, count.usd) == (100, 10, 0, 0.0)
    assert count.cache_hits == 1


def test_a_price_is_used_where_none_is_known_and_one_that_is_given_always() -> None:
    usage = {"prompt_tokens": 80, "completion_tokens": 9}
    fallback, given = Price(1e6, 2e6), Price(1e6, 2e6, given=True)
    assert (counted(usage).usd, counted(usage).unpriced) == (0.0, 1)
    assert (counted(usage, cost=0.5).usd, counted(usage, cost=0.5, price=fallback).usd) == (0.5, 0.5)
    assert counted(usage, price=fallback).usd == 98.0
    assert counted(usage, cost=0.5, price=given).usd == 98.0
    assert counted({}, cost=0.5, price=fallback).usd == 120.0, "the cost is computed from the absurd report"


def test_a_report_below_what_the_text_can_take_is_kept_and_counts_in_budgets_as_the_least_possible() -> None:
    """A token has 16 characters at most: of a prompt of 300 characters a server can't have read fewer than 18."""
    count = counted({"prompt_tokens": 1, "completion_tokens": 1})
    assert (count.prompt, count.completion, count.short, count.total, count.budgeted) == (1, 1, 17, 2, 19)


def test_a_server_that_reports_one_token_gets_no_more_requests_than_its_budget_allows() -> None:
    class Modest(ScriptedEngine):
        def complete(self, request: lm15.Request) -> lm15.Response:
            return replace(super().complete(request), usage=lm15.Usage(input_tokens=1, output_tokens=1))

    engine = Modest(lambda *_: 0, 64)
    record = learn(["a" * 16_000], some, n=64, engine=engine, threads=1, budget=Budget(tokens=2_000)).experience
    assert (engine.calls, record.stopped) == (2, "budget")
    assert sum(count.total for count in record.tokens.values()) == 4, "the record has what was reported"


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
