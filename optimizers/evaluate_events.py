"""DSPy's evaluate events for every iteration, so that callbacks, such as MLflow's autologging, see a curve.

Invariants: every start is followed by one end, also if the run ends by an exception; a callback that fails is logged
and ignored, as DSPy does.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import dspy
from dspy.evaluate.evaluate import EvaluationResult

from optimizers.attempt import Attempt
from optimizers.experience import IterationResult
from optimizers.metric import Metric
from optimizers.observer import BaseObserver, IterationStarted

logger = logging.getLogger(__name__)


class EvaluateEvents(BaseObserver):
    """Calls `on_evaluate_start` and `on_evaluate_end` around every iteration, but not around a validation.

    The score is the percentage of the run's tasks solved so far; the results are each sampled task's best attempt.
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
        self._end(EvaluationResult(score=score, results=results), None)

    def abort(self, error: BaseException) -> None:
        """Ends an evaluation that an exception ends."""
        self._end(None, error)

    def _end(self, outputs: Any, exception: BaseException | None) -> None:
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
            events.abort(error)
        raise
