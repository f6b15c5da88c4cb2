"""What providers' prompt caches need holds:

- requests of an iteration are alike to the byte up to the task at their end, references and demonstrations included;
- for Anthropic that part is marked, for others nothing is sent;
- tokens that a provider read from its cache are counted, and paid at their price.
"""

import os
from collections.abc import Iterator
from typing import Any

import dspy
import pytest

from optimizers import TokenCount
from optimizers.attempt import TaskExample
from optimizers.sampling import Sampler, Sampling
from pipeline.agent.agent import Agent
from pipeline.lms.factory import make_lm
from pipeline.lms.served import constant_part
from step_runtime.tasks.task import Task
from tests.support.lm_server import Server
from tests.support.scripted_runs import RIGHT, tasks


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(prompt_cache=True) as server:
        yield server


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
def test_requests_are_alike_up_to_the_task(server: Server, monkeypatch: pytest.MonkeyPatch, shown: int) -> None:
    """System message and demonstrations are the same bytes for both tasks."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    sample(make_lm("openai/gpt-4o-mini", server.address, cache=False, probed=False), differing(), tasks()[:shown])
    one, other, *_ = [request["body"]["messages"] for request in server.requests()]
    assert one[:-1] == other[:-1] and one[-1] != other[-1]
    assert [message["role"] for message in one] == ["system", *["user", "assistant"] * shown, "user"]
    common = os.path.commonprefix([str(one), str(other)])  # noqa: RUF071
    assert common.startswith(str(one[:-1])[:-1])


def test_tokens_from_the_provider_s_cache_are_counted_at_their_price(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four requests three begin as the one before; they cost what the price list says of cached input."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    lm = make_lm("openai/gpt-4o-mini", server.address, cache=False, probed=False)
    spent, counted = sample(lm, differing(), tasks()[:1]), server.stats()
    assert (spent.prompt, spent.completion) == (counted["prompt_tokens"], counted["completion_tokens"])
    assert spent.provider_cached == counted["cached_tokens"] > 0.7 * spent.prompt
    fresh, cached, out = 0.15e-6, 0.075e-6, 0.6e-6  # dollars a token of gpt-4o-mini
    price = (spent.prompt - spent.provider_cached) * fresh + spent.provider_cached * cached + spent.completion * out
    assert spent.usd == pytest.approx(price)


@pytest.mark.parametrize("shown", [0, 2])
def test_anthropic_is_told_what_to_cache(monkeypatch: pytest.MonkeyPatch, shown: int) -> None:
    """The system message and the last demonstration carry its mark; the task does not."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
    with Server(path="/v1/messages") as server:
        lm = make_lm("anthropic/claude-3-5-haiku-latest", f"{server.origin}/v1", cache=False, probed=False)
        sample(lm.copy(num_retries=0), differing(), tasks()[:shown])
        body = server.requests()[0]["body"]
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
