"""The reward (paper, Section 4.3) as a DSPy metric: a memory of verdicts in front of the cells that reach them.

- Each text is judged by itself, and once, however often it is sampled. The cell that judges it runs programs of one
  graph once; see `step_runtime.verification.verify.Verifier`.
- A wrong program is a score of 0 with the reason; one whose verdict is unknown, such as one that a cell was lost at,
  is `unscored`; a task that fails is an exception, and so is a cell that something else kills twice.
- Safe to call from any number of threads; the verdicts do not depend on them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import dspy

from pipeline.base.languages import DEFAULT
from pipeline.languages import registry
from pipeline.languages.language import Language, Task
from pipeline.verification.judge import Request, judge, verdict_in
from pipeline.verification.pool import WorkerLost
from step_runtime.base.errors import Diagnostic
from step_runtime.verification.verdict import Verdict

MAX_VERDICTS = 10_000
"""Verdicts that are remembered, the latest ones; an earlier program is judged again."""


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
        executor: Where programs are judged, such as a `limits.verification_pool`, or any other whose workers have this
            package; None for one thread of this process, which a task's function that hangs would block.
        language: Of the programs; None for the default.
    """

    def __init__(self, executor: Executor | None = None, language: Language | None = None) -> None:
        self.language = language or registry.find(None)
        self._named = None if self.language.name == DEFAULT else self.language.name
        self.executor = executor or ThreadPoolExecutor(1, thread_name_prefix="verify")
        self._lock = threading.Lock()
        self._memory: dict[Request, Future[Verdict]] = {}

    def __call__(self, example: Any, prediction: Any, trace: Any = None, *_: Any) -> Reward:
        """The verdict on one program.

        Raises:
            TaskError: The task cannot be used, or its reference failed.
        """
        verdict, fresh = self._judged(self._request(example.task, str(prediction.impl)))
        return Reward(
            score=float(verdict.passed),
            **({"unscored": True} if verdict.unknown else {}),
            stage=verdict.stage,
            codes=[finding.code for finding in verdict.diagnostics],
            feedback="" if verdict.passed else verdict.feedback,
            seconds=verdict.seconds if fresh else 0.0,
        )

    def verdict(self, task: Task, text: str) -> Verdict:
        """The verdict on a text.

        Raises:
            TaskError: The task cannot be used, or its reference failed.
        """
        return self._judged(self._request(task, text))[0]

    def findings(self, task: Task, text: str) -> tuple[Diagnostic, ...]:
        """The warnings of `pipeline.verify` about a passing program: failures on stress inputs.

        Raises:
            TaskError: The task cannot be used.
        """
        verdict, _ = self._judged(self._request(task, text, stress=True))
        return verdict.warnings if verdict.passed else (replace(verdict.diagnostics[0], code="stress-run"),)

    def replaces(self, task: Task, draft: str) -> Callable[[str], bool]:
        """Whether a text may stand in the place of a program that passes: it passes all that the program passed.

        On stress inputs, nothing is found in it that is not found in the program; see `findings`.
        """

        def troubles(text: str) -> set[tuple[str, ...]]:
            return {(found.code, *found.message.split(" ")[:2]) for found in self.findings(task, text)}

        def passes(text: str) -> bool:
            if not self.verdict(task, text).passed:
                return False
            found = set[tuple[str, ...]]() if text == draft else troubles(text)
            return not found or found <= troubles(draft)

        return passes

    def _request(self, task: Task, text: str, *, stress: bool = False) -> Request:
        return Request(task=task.name, statement=task.statement, text=text, language=self._named, stress=stress)

    def _judged(self, request: Request) -> tuple[Verdict, bool]:
        """The verdict, and whether it was reached now."""
        with self._lock:
            known = self._memory.get(request)
            future = known or self.executor.submit(judge, request)
            self._memory[request] = future
            if len(self._memory) > MAX_VERDICTS:
                del self._memory[next(iter(self._memory))]
        try:
            return verdict_in(self.language.stages, request, future), known is None
        except WorkerLost:
            with self._lock:
                if self._memory.get(request) is future:
                    del self._memory[request]
            raise
