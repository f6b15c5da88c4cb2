"""The engine as DSPy's LM class sees it: text in, text out, deterministic, and nothing of a task is ever run."""

from __future__ import annotations

import copy
import os
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dspy
import pytest
import yaml
from dspy.lm15 import Config, Message, Request, Response
from pipeline.lms.embedded.task_view import TaskView, view_of

from optimizers import SampleError
from optimizers.errors import UnavailableError
from pipeline.base.errors import ClusterUnavailable
from pipeline.lms.embedded import EmbeddedEngine, StrongProposer
from pipeline.lms.embedded.engine import estimate_tokens
from pipeline.lms.embedded.prompt.parsing import Examples, question, sections
from pipeline.verification.pool import WorkerPool
from step_runtime.language.parser import parse
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task, dump_task
from step_runtime.verification.check import check_affine, check_outputs, infer_types
from step_runtime.verification.verify import Verifier
from tests.support.paths import PROJECT

ROOT = PROJECT
ASK = (
    "\n\nRespond with the corresponding output fields, starting with the field `[[ ## {} ## ]]`, "
    "and then ending with the marker for `[[ ## completed ## ]]`."
)
SYSTEM = (ROOT / "data/prompts/proposer.yaml").read_text()


def task_named(name: str) -> Task:
    return loads_task((ROOT / f"data/tasks/{name}.yaml").read_text(), name)


def user_message(task: Task) -> str:
    return f"[[ ## task ## ]]\n{dump_task(task.without_impl()).strip()}"


def request(text: str, seed: int | None = 0, demos: tuple[Message, ...] = (), temperature: float = 0.7) -> Request:
    config = Config(seed=seed, temperature=temperature)
    return Request(model="embedded", system=SYSTEM, messages=(*demos, Message.user(text)), config=config)


def proposal(task: Task, seed: int, *, engine: EmbeddedEngine | None = None, demos: tuple[Message, ...] = ()) -> str:
    asked = request(user_message(task) + ASK.format("impl"), seed, demos)
    return sections(answer((engine or EmbeddedEngine()).complete(asked)))["impl"]


def answer(response: Response) -> str:
    assert response.message.text is not None
    return response.message.text


def test_the_same_seed_gives_the_same_answer_in_any_order() -> None:
    """An answer depends on the request and its seed, and on nothing that was asked before."""
    task = task_named("norm/2")
    forwards = [proposal(task, seed) for seed in range(6)]
    engine = EmbeddedEngine()
    backwards = [proposal(task, seed, engine=engine) for seed in reversed(range(6))]
    assert forwards == backwards[::-1]


def test_fresh_seeds_give_different_programs() -> None:
    """Where a task leaves room, samples differ."""
    assert len({proposal(task_named("norm/1"), seed) for seed in range(12)}) >= 3


def test_a_request_without_a_seed_gets_the_next_of_a_row() -> None:
    """Several completions of one request differ, and a new engine starts the row again."""
    text = user_message(task_named("norm/1")) + ASK.format("impl")
    engine, other = EmbeddedEngine(), EmbeddedEngine()
    row = [answer(engine.complete(request(text, None))) for _ in range(8)]
    assert len(set(row)) > 1
    assert row == [answer(other.complete(request(text, None))) for _ in range(8)]


@pytest.mark.parametrize("name", ["attn/1", "bmm/2", "etoe/3", "expert/1", "gemm/1", "index/1", "norm/1", "rope/2"])
def test_every_proposal_parses_type_checks_and_is_affine(name: str) -> None:
    """What is proposed is well-typed, uses each stream once and returns what the task declares."""
    task = task_named(name)
    scope = static_scope(task)
    for seed in range(6):
        program, wrong = parse(proposal(task, seed), scope)
        types, broken = infer_types(program, scope)
        assert [*wrong, *broken, *check_affine(program), *check_outputs(program, types, scope)] == []


def test_it_solves_tasks_of_every_kind() -> None:
    """A few samples hold a program that verifies, for plain, routed, folded and reused streams alike."""
    for name in ("bmm/1", "etoe/2", "index/2", "norm/0", "rope/1"):
        task = task_named(name)
        verifier = Verifier(task)
        assert any(verifier.verify(proposal(task, seed)).passed for seed in range(6)), name


def test_nothing_of_a_task_is_run(tmp_path: Path) -> None:
    """Code that would write a file or fail has no chance to: proposing reads it only."""
    touch = f"open({str(tmp_path / 'ran')!r}, 'w').close()"
    fail = f"{touch}\nraise RuntimeError('was run')"
    text = yaml.safe_load(dump_task(task_named("gemm/2")))
    text["global"] = fail
    for spec in text["fns"]:
        spec["apply"] = f"{fail}\n{spec['apply']}"
    text["outputs"][0]["data_transform"] = [f"{fail}\n{text['outputs'][0]['data_transform'][0]}"]
    assert "return" in proposal(loads_task(yaml.safe_dump(text)), 0)
    assert not (tmp_path / "ran").exists()


def test_a_solution_in_the_question_is_not_read() -> None:
    """A task that comes with its `impl` is seen without it, and is not a request for a repair."""
    task = task_named("attn/2")
    solved = task.model_copy(update={"impl": (ROOT / "data/oracles/attn/2.step").read_text()})
    asked = question(f"[[ ## task ## ]]\n{dump_task(solved).strip()}{ASK.format('impl')}")
    assert asked.program is None and asked.task is not None
    view = view_of(asked.task)
    assert view is not None and view.task == task.without_impl()


def test_the_guardian_inserts_copies_and_changes_nothing_else() -> None:
    """A program that uses streams twice comes back affine, and computes the same."""
    task = task_named("norm/0")
    text = (
        "E1 = step.Map(fn=fn_mean).apply(E0)\nE2 = step.Map(fn=fn_minus).apply((E0, E1))\n"
        "E3 = step.Map(fn=fn_mean).apply(step.Map(fn=fn_square).apply(E2))\n"
        "E4 = step.Map(fn=fn_sqrt).apply(step.Map(fn=fn_addeps).apply(E3))\n"
        "return step.Map(fn=fn_div).apply((E2, E4))"
    )
    asked = f"{user_message(task)}\n\n[[ ## input_impl ## ]]\n{text}{ASK.format('output_impl')}"
    repaired = sections(answer(EmbeddedEngine().complete(request(asked))))["output_impl"]
    verifier = Verifier(task)
    assert verifier.verify(text).stage == "affine"
    assert verifier.verify(repaired).passed


def test_the_guardian_hands_back_what_it_cannot_parse() -> None:
    """A text that does not parse is returned unchanged, for the checker to report."""
    asked = (
        f"{user_message(task_named('norm/0'))}\n\n[[ ## input_impl ## ]]\nreturn nonsense({ASK.format('output_impl')}"
    )
    assert sections(answer(EmbeddedEngine().complete(request(asked))))["output_impl"] == "return nonsense("


def test_a_request_without_a_task_gets_an_honest_answer() -> None:
    """No program is made up for a question that holds no task."""
    text = answer(EmbeddedEngine().complete(request("What is the capital of France?")))
    assert "no task" in text and "[[ ##" not in text


def test_usage_is_estimated_by_a_plain_rule_and_says_so() -> None:
    """Tokens are characters divided by four, rounded up, and are labelled as an estimate."""
    assert [estimate_tokens(count) for count in (0, 1, 4, 5)] == [0, 1, 1, 2]
    response = EmbeddedEngine().complete(request("Hello"))
    assert response.usage.output_tokens == estimate_tokens(len(answer(response)))
    assert response.usage.input_tokens == estimate_tokens(len(SYSTEM) + 5)
    assert "estimated" in str(response.provider_data)


def test_it_serves_as_the_engine_of_a_dspy_lm() -> None:
    """`dspy.LM` calls it like any engine, and a copied LM keeps it."""
    engine = EmbeddedEngine()
    assert copy.deepcopy(engine) is engine
    lm = dspy.LM(engine.model, engine=engine, cache=False, temperature=0.7, seed=1)
    outputs = lm(user_message(task_named("gemm/0")) + ASK.format("impl"))
    assert "step.Accum" in str(outputs[0])


def test_threads_get_the_answers_that_one_thread_gets() -> None:
    """Samples of one task may be taken in parallel, from the first one on."""
    task = task_named("etoe/1").model_copy(update={"test_name": "not seen by any other test"})
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda seed: proposal(task, seed), range(24)))
    view_of.cache_clear()
    assert together == [proposal(task, seed) for seed in range(24)]


def test_worker_processes_give_the_answers_that_this_process_gives() -> None:
    """So do tokens; a request without a seed gets the next of the same row."""
    asked = [request(user_message(task_named("norm/2")) + ASK.format("impl"), seed) for seed in (3, None, 5, None)]
    here = [EmbeddedEngine() for _ in range(2)]
    expected = [here[0].complete(each) for each in asked]
    with WorkerPool(2, seconds=60, memory=2**31) as workers, here[1].answering_in(workers):
        found = [here[1].complete(each) for each in asked]
    assert [answer(each) for each in found] == [answer(each) for each in expected]
    assert [each.usage for each in found] == [each.usage for each in expected]


def test_a_proposer_that_fails_costs_its_sample_alone() -> None:
    """An internal error, or a worker that dies, is that request's error with its reason; the next one is answered."""
    asked = request(user_message(task_named("gemm/0")) + ASK.format("impl"))
    with WorkerPool(1, seconds=60, memory=2**31) as workers:
        for proposer, reason in ((Broken(), "ZeroDivisionError"), (Deadly(), "WorkerLost")):
            engine = EmbeddedEngine(proposer)
            with engine.answering_in(workers), pytest.raises(SampleError, match=reason):
                engine.complete(asked)
        engine = EmbeddedEngine()
        with engine.answering_in(workers):
            assert "step.Accum" in answer(engine.complete(asked))


def test_a_lost_cluster_is_not_a_failure_of_a_sample() -> None:
    """No other request would be answered."""

    class Lost(Executor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            raise ClusterUnavailable("gone")

    engine = EmbeddedEngine()
    asked = request(user_message(task_named("gemm/0")) + ASK.format("impl"))
    with engine.answering_in(Lost()), pytest.raises(UnavailableError, match="gone"):
        engine.complete(asked)


class Broken(StrongProposer):
    """Has a bug."""

    def propose(self, view: TaskView, read: Examples, seed: int, temperature: float) -> str | None:
        return str(1 // 0)


class Deadly(StrongProposer):
    """Takes its process along."""

    def propose(self, view: TaskView, read: Examples, seed: int, temperature: float) -> str | None:
        os._exit(3)
