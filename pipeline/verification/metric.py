"""The reward (paper, Section 4.3) as a DSPy metric.

- A program is verified once, whatever its variables are called, its comments and its layout, and however often it is
  drawn; verifiers know a graph that they have run before.
- What a verdict quotes are the lines of the very text that was judged.
- A wrong program is a score of 0 with the reason, and so is one that a worker process was lost at; a task that fails
  is an exception, never a wrong answer.
- Safe to call from any number of threads; the verdicts don't depend on them.
"""

from __future__ import annotations

import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import dspy

from pipeline.verification.cache import VerdictStore
from pipeline.verification.relocation import requoted
from pipeline.verification.worker import judge, verdict_of
from signatures import render_task
from step_runtime.language.equivalence import TREE, canonical_key, code_of
from step_runtime.tasks.task import Task
from step_runtime.verification.verify import Verdict

_NEEDS_A_RUN = ("run", "value")
"""Stages that take a run to find, which isomorphic programs share; the others are cheap, and found anew."""


class Reward(dspy.Prediction):
    """`score` 1.0 or 0.0; `stage`, `codes` and `feedback` (the rendered diagnostics) of a failure; `seconds` spent.

    True if the program is right, for optimizers that take a metric's result for a bool.
    """

    def __bool__(self) -> bool:
        return bool(self.score)


class Metric:
    """`metric(example, prediction)`: verifies the prediction's `impl` against the example's `task`.

    Args:
        executor: where programs are verified, such as a `judge.verification_pool`, or any other whose workers have
            this package; None for one thread of this process, which a task's function that hangs would hold up.
        store: verdicts of earlier runs, which gets this one's.
    """

    def __init__(self, executor: Executor | None = None, store: VerdictStore | None = None) -> None:
        self._executor = executor or ThreadPoolExecutor(1, thread_name_prefix="verify")
        self._store = store
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[str, Future[Verdict]]] = {}

    def __call__(self, example: Any, prediction: Any, trace: Any = None, *_: Any) -> Reward:
        """The verdict on one program.

        Raises:
            TaskError: the task cannot be used, or its reference failed.
        """
        task: Task = example.task
        text: str = prediction.impl
        key = canonical_key(text, [spec.name for spec in task.inputs])
        judged, verdict, fresh = self._judge_once(task, key, text)
        code = code_of if key.startswith(TREE) else str
        if not verdict.passed and code(judged) != code(text):
            own = requoted(verdict, judged, text) if verdict.stage in _NEEDS_A_RUN else None
            verdict, fresh = (own, fresh) if own else self._judge_once(task, f"{key}\n{code(text)}", text)[1:]
        return Reward(
            score=float(verdict.passed),
            stage=verdict.stage,
            codes=[diagnostic.code for diagnostic in verdict.diagnostics],
            feedback="" if verdict.passed else verdict.render(text, task.name),
            seconds=verdict.seconds if fresh else 0.0,
        )

    def _judge_once(self, task: Task, key: str, text: str) -> tuple[str, Verdict, bool]:
        """The text first seen under the key, its verdict, and whether that was reached now."""
        content = render_task(task)
        with self._lock:
            known = self._known.get((content, key)) or self._stored(content, key)
            if known is None:
                future = self._executor.submit(judge, task.name, content, text)
                self._known[content, key] = text, future
        judged, future = known or (text, future)
        verdict = verdict_of(future)
        if known is None and self._store is not None:
            self._store.put(content, key, text, verdict)
        return judged, verdict, known is None

    def _stored(self, content: str, key: str) -> tuple[str, Future[Verdict]] | None:
        """What an earlier run found under the key."""
        stored = self._store.get(content, key) if self._store else None
        if stored is None:
            return None
        judged, verdict = stored
        future: Future[Verdict] = Future()
        future.set_result(verdict)
        self._known[content, key] = judged, future
        return judged, future
