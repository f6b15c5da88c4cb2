"""A solution as applications of functions, adapted to a task that has fewer."""

from __future__ import annotations

from pipeline.lms.embedded.prompt.parsing import SolvedExample
from pipeline.lms.embedded.retrieval.applications import adapted, outline
from pipeline.lms.embedded.retrieval.fingerprints import fingerprints_of
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task
from step_runtime.verification.loading import load_task
from tests.support.paths import PROJECT

ROOT = PROJECT


def task_named(name: str) -> Task:
    return load_task(ROOT / f"data/tasks/{name}.yaml").named(name)


def oracle(name: str) -> SolvedExample:
    return SolvedExample(task_named(name), (ROOT / f"data/oracles/{name}.step").read_text())


def test_what_a_task_lacks_is_left_out_of_its_precedent() -> None:
    """Of a normalization with a mean, one without is what remains, branch and all."""
    shown, task = oracle("norm/1"), task_named("norm/2")
    known = outline(shown)
    assert known is not None
    uses, results = adapted(known, list(fingerprints_of(task, static_scope(task).fns).values()))
    assert len(uses) == len(task.fns) < len(known.applications)
    assert len(results) == 1
