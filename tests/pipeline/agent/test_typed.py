"""The typed proposer against a server that follows each of the protocols of choices, over real HTTP."""

from collections.abc import Iterator
from typing import Any

import dspy
import pytest

from optimizers.attempt import TaskExample
from optimizers.ledger import Ledger
from optimizers.requests import sampled
from optimizers.sampling import Sampler, Sampling
from pipeline.agent.agent import Agent
from pipeline.lms.factory import make_lm, prepare_choosing
from step_runtime.language.parser import parse
from step_runtime.tasks.scope import static_scope
from step_runtime.verification.check import check_affine, check_outputs, infer_types
from step_runtime.verification.verify import Verifier
from tests.support.benchmark_tasks import task_named
from tests.support.choosing import PROTOCOLS
from tests.support.lm_server import Server

TASK = task_named("gemm/0")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(answers="tests.support.choosing:knowing") as server:
        yield server


def lm_of(server: Server, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The LM at the server, that has found out how it chooses."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    lm = make_lm("openai/m", server.address, probed=False, cache=False)
    prepare_choosing(lm)
    return lm


def proposed(lm: Any, agent: Agent | None = None) -> str:
    with dspy.context(lm=lm):
        return str((agent or Agent("compiler", proposer="typed", prompt="short"))(task=TASK).impl)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_lm_that_knows_the_program_writes_it(protocol: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the server's protocol: it is found out, and every line of the program is a choice."""
    server.set(chooses=protocol, echoes=protocol == "grammar")
    server.clear()
    lm = lm_of(server, monkeypatch)
    assert lm.choice_kind == protocol
    assert lm.probe_tokens.calls == len(server.requests())
    assert Verifier(TASK).verify(proposed(lm)).passed


def test_any_answers_make_a_well_typed_program(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """An LM that answers by chance, to lists with numbers: nothing is wrong but what it computes."""
    server.set(chooses="", answers="tests.support.choosing:numbered")
    lm, scope = lm_of(server, monkeypatch), static_scope(TASK)
    assert lm.choice_kind == "numbers"
    for seed in range(3):
        text = proposed(lm.copy(seed=seed))
        program, found = parse(text, scope)
        types, typed = infer_types(program, scope)
        assert not [*found, *typed, *check_affine(program), *check_outputs(program, types, scope)]


def test_requests_of_a_sample_share_what_they_begin_with(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the lines so far is read from the server's cache; what is spent is what the server counts."""
    server.set(chooses="grammar", answers="tests.support.choosing:knowing", prompt_cache=True)
    lm = lm_of(server, monkeypatch)
    server.clear()
    ledger = Ledger()
    # With this seed functions may be applied again three times, so there is much to choose.
    proposed(sampled(lm, ledger, lambda callers: "predict", seed=11))
    spent, stats, requests = ledger.total, server.stats(), server.requests()
    counted = (len(requests), stats["prompt_tokens"], stats["completion_tokens"])
    assert (spent.calls, spent.prompt, spent.completion) == counted
    first, *others = (request["body"]["messages"] for request in requests)
    assert others and all(messages[:-1] == first[:-1] for messages in others)
    uncached = stats["prompt_tokens"] - stats["cached_tokens"]
    once = sum(len(message["content"]) for message in first) // 4
    assert uncached < 1.05 * once


def test_samples_of_a_task_follow_each_other(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a server which keeps a single prompt evaluates each task once; of a larger number, tasks take turns."""
    server.set(chooses="grammar")
    tasks = [TaskExample(index, name, dspy.Example()) for index, name in enumerate(("a", "b"))]
    sampler = Sampler(lambda example, prediction: 1.0, Sampling(10, (1.0,)))
    with dspy.context(lm=lm_of(server, monkeypatch)):
        assert "".join(job[0].task.key for job in sampler.jobs(0, tasks)) == "aaaaaaaabbbbbbbbaabb"


def test_a_task_whose_lines_are_forced_costs_no_request(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to choose, so no LM is asked."""
    server.set(chooses="grammar")
    with dspy.context(lm=lm_of(server, monkeypatch)):
        server.clear()
        impl = Agent("compiler", proposer="typed", prompt="short")(task=task_named("index/3")).impl
    assert Verifier(task_named("index/3")).verify(impl).passed
    assert not server.requests()
