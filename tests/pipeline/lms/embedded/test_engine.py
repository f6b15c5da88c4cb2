"""The engine as DSPy's LM class sees it: text in, text out, deterministic, and a task's code runs in workers only."""

import copy
import os
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import dspy
import pytest
import yaml
from dspy.lm15 import Config, Message, Request, Response

from optimizers import SampleError
from optimizers.errors import UnavailableError
from pipeline.base.errors import ClusterUnavailable
from pipeline.lms.embedded import EmbeddedEngine
from pipeline.lms.embedded.answering import sections
from pipeline.lms.embedded.engine import SAMPLING, estimate_tokens
from step_runtime.tasks.task import Task, dump_task
from step_runtime.verification.verify import Verifier
from tests.support.benchmark_tasks import task_named
from tests.support.paths import PROJECT

ASK = (
    "\n\nRespond with the corresponding output fields, starting with the field `[[ ## {} ## ]]`, "
    "and then ending with the marker for `[[ ## completed ## ]]`."
)
SYSTEM = (PROJECT / "data/prompts/proposer.yaml").read_text()


@pytest.fixture(scope="module")
def workers() -> Iterator[Executor]:
    """Two workers as those of a run."""
    with SAMPLING.start(2) as pool:
        yield pool


@pytest.fixture
def engine(workers: Executor) -> Iterator[EmbeddedEngine]:
    """An engine that answers in the workers."""
    made = EmbeddedEngine()
    with made.answering_in(workers):
        yield made


def user_message(task: Task) -> str:
    return f"[[ ## task ## ]]\n{dump_task(task.without_impl()).strip()}"


def request(text: str, seed: int | None = 0, temperature: float = 0.7) -> Request:
    config = Config(seed=seed, temperature=temperature)
    return Request(model="embedded", system=SYSTEM, messages=(Message.user(text),), config=config)


def proposal(engine: EmbeddedEngine, task: Task, seed: int | None) -> str:
    return sections(answer(engine.complete(request(user_message(task) + ASK.format("impl"), seed))))["impl"]


def answer(response: Response) -> str:
    assert response.message.text is not None
    return response.message.text


def test_a_request_without_a_seed_gets_the_next_of_a_row(workers: Executor) -> None:
    """Several completions of one request differ, and a new engine starts the row again."""
    rows = []
    for each in (EmbeddedEngine(), EmbeddedEngine()):
        with each.answering_in(workers):
            rows.append([proposal(each, task_named("norm/1"), None) for _ in range(8)])
    assert rows[0] == rows[1] and len(set(rows[0])) > 1


def test_threads_get_the_answers_that_one_thread_gets(engine: EmbeddedEngine) -> None:
    """Samples of one task may be taken in parallel, from the first one on, in any of the processes."""
    task = task_named("etoe/1").model_copy(update={"test_name": "not seen by any other test"})
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda seed: proposal(engine, task, seed), range(16)))
    assert together == [proposal(engine, task, seed) for seed in range(16)]


def test_it_solves_tasks_of_every_kind(workers: Executor) -> None:
    """With enough candidates, a few samples hold a program that verifies: plain, routed, folded and reused streams."""
    engine = EmbeddedEngine(50)
    for name in ("bmm/0", "etoe/0", "index/2", "norm/0", "rope/1"):
        task = task_named(name)
        verifier = Verifier(task)
        with engine.answering_in(workers):
            assert any(verifier.verify(proposal(engine, task, seed)).passed for seed in range(12)), name


def test_it_has_a_worker_of_its_own(engine: EmbeddedEngine) -> None:
    """As a library, without a run's workers: the same answers, and a process that ends with the engine."""
    own, task = EmbeddedEngine(), task_named("gemm/0")
    try:
        assert proposal(own, task, 3) == proposal(engine, task, 3)
    finally:
        own.close()


@pytest.mark.parametrize("code", ["import os; os._exit(3)", "raise MemoryError", "import sys; sys.exit(0)"])
def test_a_task_s_code_that_fails_costs_its_own_sample_alone(engine: EmbeddedEngine, code: str) -> None:
    """It runs in a worker: that request is told or fails with its reason; the next one is answered."""
    text = yaml.safe_load(dump_task(task_named("gemm/2")))
    text["fns"][0]["apply"] = f"{code}\n{text['fns'][0]['apply']}"
    asked = request(f"[[ ## task ## ]]\n{yaml.safe_dump(text)}" + ASK.format("impl"))
    caller = os.getpid()
    try:
        told = answer(engine.complete(asked))
        assert "[[ ##" not in told or "return" in told
    except SampleError as error:
        assert "the embedded LM failed" in str(error)
    assert os.getpid() == caller
    assert "step.Accum" in proposal(engine, task_named("gemm/0"), 0)


def test_the_guardian_inserts_copies_and_changes_nothing_else(engine: EmbeddedEngine) -> None:
    """A program that uses streams twice comes back affine, and computes the same."""
    task = task_named("norm/0")
    text = (
        "E1 = step.Map(fn=fn_mean).apply(E0)\nE2 = step.Map(fn=fn_minus).apply((E0, E1))\n"
        "E3 = step.Map(fn=fn_mean).apply(step.Map(fn=fn_square).apply(E2))\n"
        "E4 = step.Map(fn=fn_sqrt).apply(step.Map(fn=fn_addeps).apply(E3))\n"
        "return step.Map(fn=fn_div).apply((E2, E4))"
    )
    asked = f"{user_message(task)}\n\n[[ ## input_impl ## ]]\n{text}{ASK.format('output_impl')}"
    repaired = sections(answer(engine.complete(request(asked))))["output_impl"]
    verifier = Verifier(task)
    assert verifier.verify(text).stage == "affine"
    assert verifier.verify(repaired).passed


def test_usage_is_estimated_by_a_plain_rule_and_says_so(engine: EmbeddedEngine) -> None:
    """Tokens are characters divided by four, rounded up, and are labelled as an estimate."""
    assert [estimate_tokens(count) for count in (0, 1, 4, 5)] == [0, 1, 1, 2]
    response = engine.complete(request("Hello"))
    assert response.usage.output_tokens == estimate_tokens(len(answer(response)))
    assert response.usage.input_tokens == estimate_tokens(len(SYSTEM) + 5)
    assert "estimated" in str(response.provider_data)


def test_it_serves_as_the_engine_of_a_dspy_lm(engine: EmbeddedEngine) -> None:
    """`dspy.LM` calls it like any engine, and a copied LM keeps it."""
    assert copy.deepcopy(engine) is engine
    lm = dspy.LM(engine.model, engine=engine, cache=False, temperature=0.7, seed=1)
    outputs = lm(user_message(task_named("gemm/0")) + ASK.format("impl"))
    assert "step.Accum" in str(outputs[0])


def test_a_lost_cluster_is_not_a_failure_of_a_sample() -> None:
    """No other request would be answered."""

    class Lost(Executor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            raise ClusterUnavailable("gone")

    engine = EmbeddedEngine()
    asked = request(user_message(task_named("gemm/0")) + ASK.format("impl"))
    with engine.answering_in(Lost()), pytest.raises(UnavailableError, match="gone"):
        engine.complete(asked)
