"""The connection to a server holds these:

- a redirect of status 307 or 308 is followed, and the key goes to no other host;
- a paid answer is not discarded, whatever is wrong with the token counts beside it.
"""

import json
import os
import pickle
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import dspy
import pytest
from dspy._vendor.lm15.transports._types import TransportRequest, TransportResponse
from dspy.lm15 import ProviderError
from dspy.lm15 import TimeoutError as LateError

from optimizers import TokenCount
from optimizers.attempt import TaskExample
from optimizers.ledger import Ledger
from optimizers.requests import sampled
from optimizers.sampling import Sampler, Sampling
from pipeline.agent.agent import Agent
from pipeline.lms.factory import MOST_REDIRECTS, ServedLM, Transport, constant_part, largest_reply, make_lm, repaired
from pipeline.lms.model_data import known_context, known_price
from step_runtime.tasks.task import Task
from tests.support.lm_server import Server, fault
from tests.support.scripted_runs import RIGHT, tasks


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with Server() as server:
        yield server


def lm_at(server: Server, **settings: Any) -> Any:
    return make_lm("openai/some", server.address, probed=False, cache=False, num_retries=0, **settings)


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_is_followed_with_the_key_and_the_body(server: Server, status: int) -> None:
    server.set(faults=[fault("redirect", status, at=[1])], key="secret")
    assert lm_at(server)("hello")
    first, second = server.requests()
    assert (first["status"], second["status"]) == (status, 200) and first["body"] == second["body"]


def test_another_host_gets_no_key(server: Server) -> None:
    with Server(key="secret") as other:
        server.set(faults=[fault("redirect", 307, at=[1], location=f"{other.address}/chat/completions")])
        with pytest.raises(Exception, match="Incorrect API key"):
            lm_at(server)("hello")


def test_redirects_in_a_circle_end(server: Server) -> None:
    server.set(faults=[fault("redirect", 308)])
    with pytest.raises(Exception, match=r"308|redirect"):
        lm_at(server)("hello")
    assert len(server.requests()) == MOST_REDIRECTS + 1


@pytest.mark.parametrize(
    ("usage", "prompt", "estimated"),
    [
        ({"prompt_tokens": "40", "completion_tokens": "3"}, 40, False),
        ({"prompt_tokens": 40.0, "completion_tokens": 3}, 40, False),
        ({"prompt_tokens": -40, "completion_tokens": -3, "total_tokens": -43}, 34, True),
        ({"prompt_tokens": 10**15, "completion_tokens": 10**15}, 34, True),
        ({"prompt_tokens": "many", "prompt_tokens_details": "few"}, 34, True),
        (["forty"], 34, True),
        (None, 34, True),
    ],
)
def test_an_answer_counts_whatever_its_usage_says(server: Server, usage: Any, prompt: int, estimated: bool) -> None:
    """What can be read is read, and the rest is estimated: a hundred characters, here at three a token."""
    server.set(faults=[fault("usage", usage=usage)])
    lm, ledger = lm_at(server), Ledger()
    twin = sampled(lm, ledger, lambda callers: "it")
    assert twin("x" * 100)
    count = ledger.total
    assert (count.calls, count.failed, count.prompt) == (1, 0, prompt)
    assert bool(count.estimated) is estimated


def test_a_reply_that_is_right_is_left_as_it_is() -> None:
    right = json.dumps({"usage": {"prompt_tokens": 4, "details": None}, "choices": []}).encode()
    assert repaired(right) is right and repaired(b"<html>") == b"<html>" and repaired(b"[1]") == b"[1]"
    fixed = json.loads(repaired(b'{"usageMetadata": {"promptTokenCount": "4", "x_tokens_details": {"a_tokens": -1}}}'))
    assert fixed == {"usageMetadata": {"promptTokenCount": 4, "x_tokens_details": {}}}


def test_a_copy_through_pickle_connects_alike(server: Server) -> None:
    server.set(faults=[fault("redirect", 307, at=[1])])
    again = pickle.loads(pickle.dumps(lm_at(server)))
    assert isinstance(again, ServedLM) and again("hello")


class Endless:
    """A connection whose server sends parts of a reply for ever."""

    def __init__(self, part: bytes, seconds: float = 0.0) -> None:
        self.part, self.seconds, self.released = part, seconds, list[bool]()

    def stream(self, request: TransportRequest) -> TransportResponse:
        def chunks() -> Iterator[bytes]:
            while True:
                time.sleep(self.seconds)
                yield self.part

        return TransportResponse(
            status=200, reason="", http_version="1.1", headers=[], chunks=chunks(), release=self.released.append
        )


@pytest.mark.parametrize(
    ("server", "error", "message"),
    [
        (Endless(b"x" * 2**16), ProviderError, "max_tokens does not allow"),
        (Endless(b"x", 0.01), LateError, "in time"),
    ],
)
def test_a_reply_without_end_is_left_at_the_bounds_of_its_request(server: Endless, error: Any, message: str) -> None:
    """Whether it is many bytes at once or one now and then; the connection is closed."""
    body = json.dumps({"messages": [], "max_tokens": 100}).encode()
    request = TransportRequest("POST", "http://a/v1/chat/completions", body=body, read_timeout=0.3)
    if error is ProviderError:
        request = replace(request, read_timeout=600.0)
    with pytest.raises(error, match=message):
        Transport(server).stream(request).read()
    assert server.released == [False]
    assert largest_reply(body) < 2**21 < largest_reply(b"no JSON")


# A model's price and context window are found in LiteLLM's data, or in a server's list of models.


def test_a_price_is_known_or_not() -> None:
    price = known_price("openai/gpt-4o")
    assert price is not None and (price.prompt, price.completion, price.given) == (2.5, 10.0, False)
    assert known_price("gpt-4o") == price and known_price("deepseek/deepseek-chat") is not None
    assert known_price("openai/nobody-s-model") is None and known_price("hosted_vllm/some") is None


def test_a_window_is_known_or_not() -> None:
    assert known_context("openai/gpt-4o", None) == 128_000
    assert known_context("openai/nobody-s-model", None) is None


@pytest.fixture(scope="module")
def listing() -> Iterator[Server]:
    with Server() as listing:
        yield listing


VLLM = {"id": "some", "object": "model", "max_model_len": 8192}


LLAMA = {"id": "gguf", "meta": {"n_ctx_train": 131072, "n_ctx": 4096}}


@pytest.mark.parametrize(
    ("reply", "context"),
    [
        ({"data": [VLLM]}, 8192),
        ({"data": [{"id": "other", "max_model_len": 1}, VLLM]}, 8192),
        ({"data": [LLAMA]}, 4096),
        ({"data": [{"id": "gguf", "meta": {"n_ctx_train": 131072}}]}, 131072),
        ({"data": [LLAMA, {"id": "other", "max_model_len": 1}]}, None),
        ({"data": [{"id": "some", "max_model_len": "many"}]}, None),
        ({"data": "none"}, None),
        (["some"], None),
    ],
)
def test_a_server_s_own_word_comes_first(listing: Server, reply: Any, context: int | None) -> None:
    """As vLLM and llama.cpp say it; of the model asked for, or of the only one."""
    listing.set(models_reply=reply)
    assert known_context("hosted_vllm/some", listing.address) == context


def test_a_server_without_a_list_or_none_at_all_is_not_an_error(listing: Server) -> None:
    listing.set(models_reply=None)
    assert known_context("openai/gpt-4o", listing.address) == 128_000
    assert known_context("hosted_vllm/some", "http://127.0.0.1:9/v1") is None


# What providers' prompt caches need holds:
#
# - requests of an iteration are alike to the byte up to the task at their end, references and demonstrations included;
# - for Anthropic that part is marked, for others nothing is sent;
# - tokens that a provider read from its cache are counted, and paid at their price.


@pytest.fixture
def caching() -> Iterator[Server]:
    with Server(prompt_cache=True) as caching:
        yield caching


def sample(lm: dspy.LM, examples: list[Task], demonstrations: list[Task], guardian: Any = "none") -> TokenCount:
    """Two samples of each task, one after the other; what they cost."""
    agent = Agent(guardian)
    agent.proposer.predict.demos = [dspy.Example(task=task, impl=RIGHT) for task in demonstrations]
    sampler = Sampler(lambda example, prediction: 1.0, Sampling(2, (1.0,)))
    slots = [TaskExample(n, task.name, dspy.Example(task=task).with_inputs("task")) for n, task in enumerate(examples)]
    with dspy.context(lm=lm):
        work = sampler.worker(agent)
        attempts = [result.attempt for job in sampler.jobs(0, slots) for result in work(job)]
    return TokenCount.sum(count for attempt in attempts for count in attempt.tokens.values())


def differing() -> list[Task]:
    """Two tasks that differ from their first line on."""
    one, other, _ = tasks()
    return [one, other.model_copy(update={"test_name": "another"})]


@pytest.mark.parametrize("shown", [0, 2])
def test_requests_are_alike_up_to_the_task(caching: Server, monkeypatch: pytest.MonkeyPatch, shown: int) -> None:
    """System message and demonstrations are the same bytes for both tasks."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    sample(make_lm("openai/gpt-4o-mini", caching.address, cache=False, probed=False), differing(), tasks()[:shown])
    one, other, *_ = [request["body"]["messages"] for request in caching.requests()]
    assert one[:-1] == other[:-1] and one[-1] != other[-1]
    assert [message["role"] for message in one] == ["system", *["user", "assistant"] * shown, "user"]
    common = os.path.commonprefix([str(one), str(other)])  # noqa: RUF071
    assert common.startswith(str(one[:-1])[:-1])


def test_tokens_from_the_provider_s_cache_are_counted_at_their_price(
    caching: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four requests three begin as the one before; they cost what the price list says of cached input."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    lm = make_lm("openai/gpt-4o-mini", caching.address, cache=False, probed=False)
    spent, counted = sample(lm, differing(), tasks()[:1]), caching.stats()
    assert (spent.prompt, spent.completion) == (counted["prompt_tokens"], counted["completion_tokens"])
    assert spent.provider_cached == counted["cached_tokens"] > 0.7 * spent.prompt
    fresh, cached, out = 0.15e-6, 0.075e-6, 0.6e-6  # dollars a token of gpt-4o-mini
    price = (spent.prompt - spent.provider_cached) * fresh + spent.provider_cached * cached + spent.completion * out
    assert spent.usd == pytest.approx(price)


@pytest.mark.parametrize("shown", [0, 2])
def test_anthropic_is_told_what_to_cache(monkeypatch: pytest.MonkeyPatch, shown: int) -> None:
    """The system message and the last demonstration carry its mark; the task does not."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
    with Server(path="/v1/messages") as caching:
        lm = make_lm("anthropic/claude-3-5-haiku-latest", f"{caching.origin}/v1", cache=False, probed=False)
        sample(lm.copy(num_retries=0), differing(), tasks()[:shown])
        body = caching.requests()[0]["body"]
    mark = {"type": "ephemeral"}
    assert body["system"][0]["cache_control"] == mark
    marked = [number for number, each in enumerate(body["messages"]) if "cache_control" in each["content"][-1]]
    assert len(body["messages"]) == 2 * shown + 1
    assert marked == ([2 * shown - 1] if shown else [])


def test_the_mark_stands_before_the_last_message() -> None:
    """Whether or not there is a system message."""
    turns = [{"role": role, "content": ""} for role in ("user", "assistant", "user")]
    assert constant_part(turns).prefix_until_index == 1
    assert constant_part([{"role": "system", "content": ""}, *turns]).prefix_until_index == 1
    assert constant_part(turns[:1]).prefix == "stable"
