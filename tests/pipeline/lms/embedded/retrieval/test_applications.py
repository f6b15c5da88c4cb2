"""A solution as applications of functions, adapted to a task that has fewer."""

from __future__ import annotations

import sympy

from pipeline.lms.embedded.prompt.parsing import SolvedExample
from pipeline.lms.embedded.retrieval.applications import Form, adapted, form_of, outline
from pipeline.lms.embedded.retrieval.fingerprints import fingerprints_of
from pipeline.lms.embedded.types.coercions import ONE
from step_runtime.base.types import Scalar, StreamType
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task
from step_runtime.verification.loading import load_task
from tests.support.paths import PROJECT

ROOT = PROJECT
NUMBER = Scalar("float")


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


def test_a_form_says_which_sources_have_the_dims_at_which_they_meet() -> None:
    """Of an outer product summed over one side: names, ones and the number of equal neighbours do not matter."""
    m, n, k = sympy.symbols("M N K", positive=True, integer=True)
    one, two = StreamType(NUMBER, (m,)), StreamType(NUMBER, (n, k))
    form = form_of((m, ONE, n, k), (m,), [one, two])
    assert form == Form(1, ((True, False), (False, True)))
    assert form == form_of((k, m), (k,), [StreamType(NUMBER, (k,)), StreamType(NUMBER, (m,))])
    assert form_of((m * n,), (), [two, StreamType(NUMBER, (m * n,))]) == Form(0, ((False, True),))
