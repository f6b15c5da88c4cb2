"""The reward (paper, Section 4.3) as a DSPy metric.

- A program is verified once, whatever its variables are called, its comments and its layout, and however often it is
  sampled. A text shares the verdict on another only where both are one program: see `step_runtime.language.identity`.
- What a verdict quotes are the lines of the very text that was judged.
- A wrong program is a score of 0 with the reason; one whose verdict is unknown, such as one that a worker process was
  lost at, is `unscored`; a task that fails is an exception, and so is a worker that something else kills twice.
- Safe to call from any number of threads; the verdicts do not depend on them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import dspy

from pipeline.languages import registry
from pipeline.languages.language import Language, SharesVerdicts, Task
from pipeline.verification.cache import VerdictStore
from pipeline.verification.judging import call_of, judging_of
from pipeline.verification.pool import WorkerLost
from pipeline.verification.worker import WorkerKilled, verdict_of
from step_runtime.base.errors import Span
from step_runtime.language.identity import KnownScopes, code_of, graphs
from step_runtime.program.limits import Limits
from step_runtime.verification.verify import Verdict

_NEEDS_A_RUN = ("run", "value", "cost")
"""Stages whose findings name neither variables nor lines; those of the others do."""
_OF_THE_TEXT = frozenset({"syntax", "no-program", "length"})
"""Codes of findings that depend on the whole text, comments included."""


def relocated(verdict: Verdict, judged: str, text: str, scopes: KnownScopes | None) -> Verdict | None:
    """The verdict on `judged` as the one on `text`; None where it may be another.

    Its words and places are those of `text`. The names in scope at each set of sizes are None where not known.
    """
    if judged == text:
        return verdict
    return _by_code(verdict, judged, text) or (_by_graph(verdict, judged, text, scopes) if scopes else None)


def _by_code(verdict: Verdict, judged: str, text: str) -> Verdict | None:
    """For texts that differ in comments and empty lines alone."""
    here, there = code_of(judged), code_of(text)
    if here.text != there.text or max(len(judged), len(text)) > Limits().characters:
        return None
    if any(diagnostic.code in _OF_THE_TEXT for diagnostic in verdict.diagnostics):
        return None
    if verdict.stage not in (None, *_NEEDS_A_RUN) and here.lines != there.lines:
        return None  # such findings name lines
    lines = dict(zip(here.lines, there.lines, strict=True))
    places: dict[Span | None, Span | None] = {None: None}
    for diagnostic in verdict.diagnostics:
        span = diagnostic.span
        if span is not None and span.line in lines and span.end_line in lines:
            places[span] = replace(span, line=lines[span.line], end_line=lines[span.end_line])
    return _at(verdict, places)


def _by_graph(verdict: Verdict, judged: str, text: str, scopes: KnownScopes) -> Verdict | None:
    """For texts that give the same graphs, where the verdict is that it passes or was found by running it."""
    if not verdict.passed and verdict.stage not in _NEEDS_A_RUN:
        return None
    here, there = graphs(judged, scopes), graphs(text, scopes)
    if here is None or here != there:
        return None
    places: dict[Span | None, Span | None] = {None: None}
    if verdict.stage == "value":
        places[here[0].result_span] = there[0].result_span
    else:
        ambiguous = set()
        for one, other in zip(here, there, strict=True):
            for a, b in zip(one.nodes, other.nodes, strict=True):
                if places.setdefault(a.span, b.span) != b.span:
                    ambiguous.add(a.span)
        if verdict.stage == "cost":
            places.setdefault(here[0].result_span, there[0].result_span)
        for span in ambiguous - {None}:
            del places[span]
    return _at(verdict, places)


def _at(verdict: Verdict, places: Mapping[Span | None, Span | None]) -> Verdict | None:
    """The verdict with its places by the mapping; None if one is not in it."""
    if not all(diagnostic.span in places for diagnostic in verdict.diagnostics):
        return None
    moved = tuple(replace(diagnostic, span=places[diagnostic.span]) for diagnostic in verdict.diagnostics)
    return replace(verdict, diagnostics=moved)


_LOG = logging.getLogger(__name__)
MAX_VERDICTS = 10_000
"""Verdicts that are remembered, the latest ones; an earlier program is verified again."""
_Key = tuple[str, str]
_Judged = tuple[str, Future[Verdict]]
_V = TypeVar("_V")


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
        store: Verdicts of earlier runs, to which this one's are added.
        language: Of the programs; None for the default.
    """

    def __init__(
        self, executor: Executor | None = None, store: VerdictStore | None = None, language: Language | None = None
    ) -> None:
        self.language = language or registry.find(None)
        self._judge = judging_of(self.language)
        self.executor = executor or ThreadPoolExecutor(1, thread_name_prefix="verify")
        self._store = store
        self._lock = threading.Lock()
        self._known: dict[_Key, _Judged] = {}
        self._moved: dict[_Key, Verdict] = {}
        self._findings: dict[_Key, tuple[str, ...]] = {}

    def __call__(self, example: Any, prediction: Any, trace: Any = None, *_: Any) -> Reward:
        """The verdict on one program.

        Raises:
            TaskError: The task cannot be used, or its reference failed.
        """
        task: Task = example.task
        text = str(prediction.impl)
        verdict, fresh = self._verdict(task, text)
        return _reward(task, text, verdict, verdict.seconds if fresh else 0.0)

    def confirmed(self, example: Any, prediction: Any) -> Reward:
        """As a call, but a program that passes is verified once more, by its own text alone.

        Raises:
            TaskError: The task cannot be used, or its reference failed.
        """
        reward = self(example, prediction)
        if not reward:
            return reward
        text = str(prediction.impl)
        verdict = self.confirm(example.task, text)
        return _reward(example.task, text, verdict, verdict.seconds)

    def confirm(self, task: Task, text: str) -> Verdict:
        """The verdict that this very text was given, or is given now: what is kept as a solution must pass it.

        Raises:
            TaskError: The task cannot be used, or its reference failed.
        """
        judged, verdict, _ = self._judge_once(task, task.statement, self._shared_key(task, text), text)
        if judged != text:
            verdict = self._judge_once(task, task.statement, f"text {text}", text)[1]
        return verdict

    def findings(self, task: Task, text: str) -> tuple[str, ...]:
        """What `pipeline.verify` warns of in a program that passes, a line each: what fails on stress inputs.

        Raises:
            TaskError: The task cannot be used.
        """
        key = (task.statement, text)
        if key not in self._findings:
            called = call_of(self.language, "stress")
            if called is None:
                return ()
            try:
                found = self.executor.submit(called[0], task.name, task.statement, text, *called[1]).result()
                lines = tuple(": ".join([each.code, ", ".join([each.message, *each.details[:1]])]) for each in found)
            except WorkerLost as error:
                lines = (f"stress-run: verification on stress inputs {error}",)
            with self._lock:
                _remember(self._findings, key, lines)
            return lines
        return self._findings[key]

    def replaces(self, task: Task, draft: str) -> Callable[[str], bool]:
        """Whether a text may stand in the place of a program that passes: it passes all that the program passed.

        On stress inputs, nothing is found in it that is not found in the program; see `findings`.
        """

        def troubles(text: str) -> set[tuple[str, ...]]:
            return {tuple(finding.split(" ")[:3]) for finding in self.findings(task, text)}

        return lambda text: self.confirm(task, text).passed and (text == draft or troubles(text) <= troubles(draft))

    def _verdict(self, task: Task, text: str) -> tuple[Verdict, bool]:
        """The verdict on a text, and whether it was reached now."""
        content = task.statement
        alone = f"text {text}"  # the key of this text and no other
        for key in (alone,) if (content, alone) in self._known else (self._shared_key(task, text), alone):
            judged, verdict, fresh = self._judge_once(task, content, key, text)
            own = self._relocated(verdict, judged, text, task)
            if own is not None:
                return own, fresh
        raise AssertionError("a text is the same program as itself")

    def _shared_key(self, task: Task, text: str) -> str:
        """Equal for texts that may share a verdict."""
        if isinstance(self.language, SharesVerdicts):
            return self.language.shared_key(text)
        return self.language.key(task, text)

    def _relocated(self, verdict: Verdict, judged: str, text: str, task: Task) -> Verdict | None:
        """The verdict on another text as that on this one; without an offer of the language, only that it passes."""
        if judged == text:
            return verdict
        if not isinstance(self.language, SharesVerdicts):
            return verdict if verdict.passed else None
        content = task.statement
        if (content, text) in self._moved:
            return self._moved[content, text]
        try:
            own: Verdict | None = self.language.relocated(task, verdict, judged, text)
        except Exception:  # whatever a text does to code that only saves time, the text is judged by itself
            _LOG.exception("two programs could not be compared")
            return None
        if own is not None:
            with self._lock:
                _remember(self._moved, (content, text), own)
        return own

    def _judge_once(self, task: Task, content: str, key: str, text: str) -> tuple[str, Verdict, bool]:
        """The text first seen under the key, its verdict, and whether that was reached now."""
        with self._lock:
            known = self._known.get((content, key)) or self._stored(content, key)
            if known is None:
                future = self.executor.submit(self._judge[0], task.name, content, text, *self._judge[1])
                _remember(self._known, (content, key), (text, future))
        judged, future = known or (text, future)
        try:
            verdict = verdict_of(future, self.language.stages)
        except WorkerKilled:
            with self._lock:
                if self._known.get((content, key)) == (judged, future):
                    del self._known[content, key]
            raise
        if known is None and self._store is not None:
            self._store.put(content, key, text, verdict)
        return judged, verdict, known is None

    def _stored(self, content: str, key: str) -> _Judged | None:
        """What an earlier run found under the key."""
        stored = self._store.get(content, key) if self._store else None
        if stored is None:
            return None
        judged, verdict = stored
        future: Future[Verdict] = Future()
        future.set_result(verdict)
        _remember(self._known, (content, key), (judged, future))
        return judged, future


def _remember(verdicts: dict[_Key, _V], key: _Key, verdict: _V) -> None:
    verdicts[key] = verdict
    if len(verdicts) > MAX_VERDICTS:
        del verdicts[next(iter(verdicts))]


def _reward(task: Task, text: str, verdict: Verdict, seconds: float) -> Reward:
    return Reward(
        score=float(verdict.passed),
        **({"unscored": True} if verdict.unknown else {}),
        stage=verdict.stage,
        codes=[diagnostic.code for diagnostic in verdict.diagnostics],
        feedback="" if verdict.passed else verdict.render(text, task.name),
        seconds=seconds,
    )
