"""Replacements of the LM, the adapter and the metric for DSPy's optimizers, so that a run counts and can end them.

Invariants: every request is recorded for the student's predictor that made it; a request's seed depends on the run's
seed, on the request and on how often it was made before, so that answers differ and runs repeat; a budget that is
reached, an LM that cannot be used and a metric that fails end the optimizer, which would otherwise ignore them; an
answer to the optimizer's own request that cannot be parsed, on which it would fail, is requested again.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError, LMError

from optimizers.budget import Spending
from optimizers.call_metric import JUDGE, read_verdict
from optimizers.errors import MetricError, RunStopped, one_line
from optimizers.ledger import Ledger
from optimizers.metering import metered_all
from optimizers.predictors import OTHER, innermost_predictor, predictor_names
from optimizers.requests import DeadlineReached, derive_seed, extended, sampled
from optimizers.sampling import FATAL, Sampler

MAX_PAID_ANSWERS = 3
"""The number of paid answers to one of the optimizer's own requests before it may fail on one that cannot be parsed."""

MAX_ANSWERS = 100
"""The same for answers from the response cache, where a resumed run finds all earlier ones, including bad ones."""


class OptimizerAborted(BaseException):
    """Ends an optimizer that catches every `Exception`.

    Attributes:
        reason: The exception to raise in its place.
    """

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Tuning:
    """The LM, the adapter and the metric for an optimizer within a run, which records all its requests as overhead."""

    def __init__(self, program: dspy.Module, sampler: Sampler, spending: Spending, max_errors: int | None) -> None:
        self.threshold = sampler.threshold
        self._program, self._sampler, self._spending, self._max_errors = program, sampler, spending, max_errors
        self._too_many = spending.budget.too_many_failures
        self._asked: Counter[str] = Counter()
        self._finished = self._failed = self._verdicts = self._unjudged = 0
        self._lm = dspy.settings.lm
        self._lock = threading.Lock()

    def lm(self, lm: Any) -> Any:
        """A copy of `lm` to tune with; copies that DSPy makes of it for other settings count too."""
        overhead, deadline = self._spending.overhead, self._spending.deadline
        return sampled(lm, overhead, self._predictor, seeds=self, deadline=deadline, n=None)

    def adapter(self) -> Any:
        """A copy of the adapter in use that repeats the request if it cannot parse the answer."""
        twin = extended(dspy.settings.adapter or dspy.ChatAdapter(), _Repeating)
        twin._tuning = self
        return twin

    def score(self, example: dspy.Example, prediction: Any, trace: Any = None, *_: Any) -> float:
        """The metric's score."""
        return self._verdict(example, prediction, trace)[0]

    def score_with_feedback(
        self,
        gold: dspy.Example,
        pred: Any,
        trace: Any = None,
        pred_name: str | None = None,
        pred_trace: Any = None,
    ) -> dspy.Prediction:
        """The metric's score, and everything else it returned as `feedback` in words."""
        score, details = self._verdict(gold, pred, trace)
        words = details.get("feedback") or "; ".join(f"{name}: {value}" for name, value in details.items() if value)
        right = score >= self.threshold
        return dspy.Prediction(score=score, feedback=str(words) or ("This is right." if right else "This is wrong."))

    def _verdict(self, example: dspy.Example, prediction: Any, trace: Any) -> tuple[float, dict[str, Any]]:
        try:
            with (
                dspy.context(lm=self._lm, caller_modules=[], trace=[]),
                metered_all(self._spending.overhead, JUDGE),
            ):
                score, details = read_verdict(self._sampler.judged(example, prediction, trace))
        except Exception as error:
            failure = MetricError.of(error, "")
            with self._lock:
                self._verdicts += 1
                self._unjudged += 1
                many = self._too_many(self._unjudged, self._verdicts, most=self._max_errors)
            if failure.fatal or many:
                raise OptimizerAborted(failure) from error
            raise failure from error  # DSPy's optimizers count it as an answer without a score
        with self._lock:
            self._verdicts += 1
        return score or 0.0, details  # DSPy's optimizers know no answer that is unscored

    def next(self, request: Any, settings: Mapping[str, Any], explicit: bool) -> int:
        """The seed of a request, by how often it was made before; none is made once a limit is reached."""
        if self._spending.reached():
            raise OptimizerAborted(self._spending.stop())
        text = json.dumps([*request, settings], default=str)
        with self._lock:
            self._asked[text] += 1
            return derive_seed("tuning", self._sampler.sampling.seed, text, self._asked[text])

    def answered(self, error: LMError | None = None) -> None:
        """Counts an answer, or a failure."""
        if isinstance(error, DeadlineReached):
            raise OptimizerAborted(self._spending.stop()) from error
        with self._lock:
            self._finished += 1
            self._failed += error is not None
            many = self._too_many(self._failed, self._finished, most=self._max_errors)
            never = self._failed == self._finished  # otherwise the run has answers to report
        if isinstance(error, FATAL) or (error is not None and many):
            message = f"the LM cannot be used: {one_line(error)}"
            raise OptimizerAborted(RunStopped("failed", message, error if never else None)) from error

    @property
    def reflecting(self) -> bool:
        """Whether the running request is the optimizer's own, not the student's."""
        return self._predictor(dspy.settings.caller_modules or []) == OTHER

    def _predictor(self, callers: Sequence[Any]) -> str:
        outermost = next((module for module in callers if _is_like(module, self._program)), None)
        return OTHER if outermost is None else innermost_predictor(callers, predictor_names(outermost))


def _is_like(module: Any, program: dspy.Module) -> bool:
    """Whether a module is a copy of the program; an optimizer's own predictors have other fields."""
    if isinstance(module, dspy.Predict) and isinstance(program, dspy.Predict):
        return bool(module.signature.fields.keys() == program.signature.fields.keys())
    return isinstance(module, type(program))


class _Repeating:
    """What an adapter to tune with adds to the class it is mixed into.

    A mixin, not a wrapper: `dspy.Refine` subclasses the adapter's class and calls it without arguments.
    """

    _tuning: Tuning

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._tuning.reflecting:
            return super().__call__(*args, **kwargs)  # type: ignore[misc]
        made = Ledger()
        while True:
            try:
                with metered_all(made, OTHER):
                    return super().__call__(*args, **kwargs)  # type: ignore[misc]
            except AdapterParseError:
                calls, cached = made.total.calls, made.total.cache_hits
                if calls - cached >= MAX_PAID_ANSWERS or calls >= MAX_ANSWERS:
                    raise
