"""Observers of a run, and the events they receive.

Invariants: events come from the thread that called `compile`, one at a time, so a listener needs no locks; payloads are
frozen; `sample_done` comes in order of completion, everything else in the order of the algorithm; an exception of a
listener ends the run.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import dspy
from dspy.evaluate.evaluate import EvaluationResult

from optimizers.attempt import Attempt
from optimizers.call_metric import Metric
from optimizers.experience import Experience, IterationResult
from optimizers.ledger import TokenCount


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run starts.

    Attributes:
        tasks: Keys of all tasks, in the order of the training set.
        solved: Those keys that an earlier run's experience already solves.
        settings: Samples, temperatures, granularity, selection, seed and budget.
        examples: The tasks by key, in the order of the training set; read-only.
    """

    tasks: tuple[str, ...]
    solved: tuple[str, ...]
    settings: Mapping[str, Any]
    examples: Mapping[str, dspy.Example] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IterationStarted:
    """An iteration starts.

    Attributes:
        index: From 0; negative for a candidate tried on the validation set, -1 for the first.
        label: As the selection strategy calls it, such as `HM_2`; or the name of another optimizer, whose program is
            sampled.
        cycle: As the strategy counts, from 1; 0 for a pass before any cycle.
        demos: Keys of the demonstrations, in the order of the prompt.
        left_out: Keys of those that do not fit the context window, last in the prompt's order first.
        tasks: Keys of the tasks to try.
        total_samples: Attempts to expect: tasks times temperatures times samples.
        program: The program that is about to be sampled, its demonstrations set; read-only.
        overhead: Tokens spent by another optimizer, not on samples, per predictor.
        reasons: By task, the demonstrations that it alone is shown and why, in the order of the prompt; empty where all
            tasks are shown `demos`.
    """

    index: int
    label: str
    cycle: int
    demos: tuple[str, ...]
    left_out: tuple[str, ...]
    tasks: tuple[str, ...]
    total_samples: int
    program: Any
    overhead: Mapping[str, TokenCount]
    reasons: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InFlight:
    """A sample that has started and has no result yet.

    Attributes:
        task_key: Its task.
        seconds: Wall time since it started.
    """

    task_key: str
    seconds: float


class Observer(Protocol):
    """The events of a run; `BaseObserver` ignores all of them. A listener may lack methods."""

    def run_started(self, event: RunStarted) -> None:
        """Once, before anything is sampled."""
        return

    def iteration_started(self, event: IterationStarted) -> None:
        """Before the first sample of an iteration, or of a candidate's validation."""
        return

    def parts_entered(self, parts: Mapping[str, Mapping[str, dspy.Example]]) -> None:
        """After an iteration that left tasks unsolved: by task, the sub-tasks that are sampled from the next one on."""
        return

    def sample_done(self, attempt: Attempt) -> None:
        """After every sample, scored or not."""
        return

    def in_flight(self, samples: tuple[InFlight, ...]) -> None:
        """The samples in flight, the earliest first: after every sample, and at least every second while sampling."""
        return

    def iteration_finished(self, result: IterationResult) -> None:
        """After the last sample of an iteration, also of one cut short; not after a candidate's validation."""
        return

    def program_compiled(self, program: dspy.Module) -> None:
        """Once, before `run_finished`: the result, which has no `experience` yet; read-only."""
        return

    def run_finished(self, experience: Experience) -> None:
        """Once, when the run ends in any way but an exception."""
        return

    def run_failed(self, experience: Experience, error: BaseException) -> None:
        """Once, when an exception ends the run; what this raises is logged and ignored."""
        return


class BaseObserver(Observer):
    """A listener that ignores every event; override the relevant ones."""


logger = logging.getLogger(__name__)


class EvaluateEvents(BaseObserver):
    """Calls `on_evaluate_start` and `on_evaluate_end` around every iteration, but not around a validation.

    The score is the percentage of the run's tasks solved so far; the results are each sampled task's best attempt.
    Every start is followed by one end, also if the run ends by an exception; a callback that fails is logged and
    ignored, as DSPy does.
    """

    def __init__(self, metric: Metric, examples: Mapping[str, dspy.Example], callbacks: list[Any]) -> None:
        self._evaluate = dspy.Evaluate(devset=list(examples.values()), metric=metric)
        self._examples, self._callbacks = examples, callbacks
        self._call_id: str | None = None
        self._best: dict[str, Attempt] = {}

    def iteration_started(self, event: IterationStarted) -> None:
        """Starts an evaluation."""
        if event.index < 0:
            return
        self._call_id, self._best = uuid.uuid4().hex, {}
        devset = [self._examples[key] for key in event.tasks]
        inputs = {"program": event.program, "metric": self._evaluate.metric, "devset": devset}
        self._notify("on_evaluate_start", instance=self._evaluate, inputs=inputs)

    def sample_done(self, attempt: Attempt) -> None:
        """Keeps it if it is the best of its task."""
        best = self._best.get(attempt.task_key)
        if best is None or (attempt.score is not None and (best.score is None or attempt.score > best.score)):
            self._best[attempt.task_key] = attempt

    def iteration_finished(self, result: IterationResult) -> None:
        """Ends the evaluation."""
        results = [
            (self._examples[key], dspy.Prediction(**best.outputs), best.score or 0.0)
            for key in result.tasks
            if (best := self._best.get(key))
        ]
        score = round(100 * result.solved_total / len(self._examples), 2)
        self.end(EvaluationResult(score=score, results=results), None)

    def end(self, outputs: Any, exception: BaseException | None) -> None:
        """Ends the evaluation, if one has started, with its result or with the exception that ends it."""
        if self._call_id is not None:
            self._notify("on_evaluate_end", outputs=outputs, exception=exception)
        self._call_id = None

    def _notify(self, event: str, **details: Any) -> None:
        for callback in self._callbacks:
            try:
                getattr(callback, event)(call_id=self._call_id, **details)
            except Exception as error:
                logger.warning("%s of %s failed: %s", event, type(callback).__name__, error)


@contextmanager
def evaluate_events(metric: Metric, examples: Mapping[str, dspy.Example]) -> Iterator[list[EvaluateEvents]]:
    """The observer that notifies the callbacks in DSPy's settings; none where there are none."""
    callbacks = list(dspy.settings.callbacks or ())
    events = EvaluateEvents(metric, examples, callbacks) if callbacks else None
    try:
        yield [events] if events else []
    except BaseException as error:
        if events:
            events.end(None, error)
        raise
