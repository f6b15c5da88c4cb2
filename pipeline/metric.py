"""The reward (paper, Section 4.3) as a DSPy metric.

- A program is run once, whatever its variables, comments and layout are called and however often it is drawn.
- A wrong program is a score of 0 with the reason; a task that fails is an exception, never a wrong answer.
- Safe to call from any number of threads; the verdicts don't depend on them.
"""

from __future__ import annotations

import functools
import multiprocessing
import signal
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import dspy

from signatures import render_task
from step_runtime.canonical import canonical_key
from step_runtime.task import Task, loads_task
from step_runtime.verify import Verdict, Verifier

_NEEDS_A_RUN = (None, "run", "value")
"""Stages of verdicts that isomorphic programs share; the others are cheap to find, and tell places in the text."""


class Reward(dspy.Prediction):
    """`score` 1.0 or 0.0; `stage`, `codes` and `feedback` (the rendered diagnostics) of a failure; `seconds` spent.

    True if the program is right, for optimizers that take a metric's result for a bool.
    """

    def __bool__(self) -> bool:
        return bool(self.score)


class Metric:
    """`metric(example, prediction)`: verifies the prediction's `impl` against the example's `task`.

    Args:
        executor: where programs are verified, such as a `process_pool`; None for one thread of this process.
    """

    def __init__(self, executor: Executor | None = None) -> None:
        self._executor = executor or ThreadPoolExecutor(1, thread_name_prefix="verify")
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
        if judged != text and verdict.stage not in _NEEDS_A_RUN:
            judged, verdict, fresh = self._judge_once(task, text, text)
        return Reward(
            score=float(verdict.passed),
            stage=verdict.stage,
            codes=[diagnostic.code for diagnostic in verdict.diagnostics],
            feedback="" if verdict.passed else verdict.render(judged, task.name),
            seconds=verdict.seconds if fresh else 0.0,
        )

    def _judge_once(self, task: Task, key: str, text: str) -> tuple[str, Verdict, bool]:
        """The text first seen under the key, its verdict, and whether that is the one given."""
        content = render_task(task)
        with self._lock:
            known = self._known.get((content, key))
            if known is None:
                future = self._executor.submit(_judge, task.name, content, text)
                self._known[content, key] = text, future
        judged, future = known or (text, future)
        return judged, future.result(), known is None


def process_pool(workers: int) -> ProcessPoolExecutor:
    """Worker processes to verify in, one a core; they leave Ctrl-C to the process that started them."""
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_settle_worker)


def _settle_worker() -> None:
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)


def _judge(name: str, content: str, text: str) -> Verdict:
    return _verifier(name, content).verify(text)


@functools.lru_cache(maxsize=256)
def _verifier(name: str, content: str) -> Verifier:
    """One verifier a task and process, as its functions are compiled and its references computed once."""
    return Verifier(loads_task(content, name))
