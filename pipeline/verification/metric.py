"""The reward (paper, Section 4.3) as a DSPy metric.

- Each text is judged by itself, and once, however often it is sampled. The worker that judges it runs programs of one
  graph once; see `step_runtime.verification.verify.Verifier`.
- A wrong program is a score of 0 with the reason; one whose verdict is unknown, such as one that a worker process was
  lost at, is `unscored`; a task that fails is an exception, and so is a worker that something else kills twice.
- Safe to call from any number of threads; the verdicts do not depend on them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import dspy

from pipeline.languages import registry
from pipeline.languages.language import Language, Task
from pipeline.verification.judging import call_of, judging_of
from pipeline.verification.pool import WorkerLost
from pipeline.verification.worker import WorkerKilled, verdict_of
from step_runtime.verification.verify import Verdict

MAX_VERDICTS = 10_000
"""Answers of workers that are remembered, the latest ones; an earlier program is verified again."""


class Reward(dspy.Prediction):
    """`score` 1.0 or 0.0; `stage`, `codes` and `feedback` (the rendered diagnostics) of a failure; `seconds` spent.

    `unscored` where nothing is known of the program, as a limit ended its run: then 0.0 is no wrong answer.
    True if the program is right, for optimizers that take a metric's result for a bool.
    """

    def __bool__(self) -> bool:
        return bool(self.score)


class Metric:
    """`metric(example, prediction)`: verifies the prediction's `impl` against the example's `task`.

    Args:
        executor: Where programs are verified, such as a `worker.verification_pool`, or any other whose workers have
            this package; None for one thread of this process, which a task's function that hangs would block.
        language: Of the programs; None for the default.
    """

    def __init__(self, executor: Executor | None = None, language: Language | None = None) -> None:
        self.language = language or registry.find(None)
        self._judge = judging_of(self.language)
        self.executor = executor or ThreadPoolExecutor(1, thread_name_prefix="verify")
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, str, str], Future[Any]] = {}

    def __call__(self, example: Any, prediction: Any, trace: Any = None, *_: Any) -> Reward:
        """The verdict on one program.

        Raises:
            TaskError: The task cannot be used, or its reference failed.
        """
        task: Task = example.task
        text = str(prediction.impl)
        verdict, fresh = self._judged(task, text)
        return _reward(task, text, verdict, verdict.seconds if fresh else 0.0)

    def verdict(self, task: Task, text: str) -> Verdict:
        """The verdict on a text.

        Raises:
            TaskError: The task cannot be used, or its reference failed.
        """
        return self._judged(task, text)[0]

    def findings(self, task: Task, text: str) -> tuple[str, ...]:
        """The warnings of `pipeline.verify` about a passing program, a line each: failures on stress inputs.

        Raises:
            TaskError: The task cannot be used.
        """
        called = call_of(self.language, "stress")
        if called is None:
            return ()
        future, _ = self._asked("stress", called, task, text)
        try:
            found = future.result()
        except WorkerLost as error:
            return (f"stress-run: verification on stress inputs {error}",)
        return tuple(": ".join([each.code, ", ".join([each.message, *each.details[:1]])]) for each in found)

    def replaces(self, task: Task, draft: str) -> Callable[[str], bool]:
        """Whether a text may stand in the place of a program that passes: it passes all that the program passed.

        On stress inputs, nothing is found in it that is not found in the program; see `findings`.
        """

        def troubles(text: str) -> set[tuple[str, ...]]:
            return {tuple(finding.split(" ")[:3]) for finding in self.findings(task, text)}

        return lambda text: self.verdict(task, text).passed and (text == draft or troubles(text) <= troubles(draft))

    def _judged(self, task: Task, text: str) -> tuple[Verdict, bool]:
        """The verdict on a text, and whether it was reached now."""
        future, fresh = self._asked("judge", self._judge, task, text)
        try:
            verdict = verdict_of(future, self.language.stages)
        except WorkerKilled:
            with self._lock:
                key = ("judge", task.statement, text)
                if self._answers.get(key) is future:
                    del self._answers[key]
            raise
        return verdict, fresh

    def _asked(
        self, what: str, called: tuple[Callable[..., Any], tuple[str, ...]], task: Task, text: str
    ) -> tuple[Future[Any], bool]:
        """A worker's answer to a call about a program, and whether the call is made now."""
        content = task.statement
        key = (what, content, text)
        with self._lock:
            known = self._answers.get(key)
            call, settings = called
            future = known or self.executor.submit(call, task.name, content, text, *settings)
            self._answers[key] = future
            if len(self._answers) > MAX_VERDICTS:
                del self._answers[next(iter(self._answers))]
        return future, known is None


def _reward(task: Task, text: str, verdict: Verdict, seconds: float) -> Reward:
    return Reward(
        score=float(verdict.passed),
        **({"unscored": True} if verdict.unknown else {}),
        stage=verdict.stage,
        codes=[diagnostic.code for diagnostic in verdict.diagnostics],
        feedback="" if verdict.passed else verdict.render(text, task.name),
        seconds=seconds,
    )
