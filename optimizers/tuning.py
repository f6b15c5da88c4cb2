"""What the optimizers of DSPy are handed in place of the LM and the metric: both book, and both can end the run.

Invariants: every request is booked, under the predictor of the student that made it; a request's seed depends on the
run's seed, on the request and on how often it was made before, so answers differ and runs repeat; a budget that is
reached, an LM that cannot be used and a metric that fails end the optimizer, which would otherwise pass them over; an
answer to the optimizer itself that can't be read, on which it would end, is drawn anew.
"""

from __future__ import annotations

import copy
import functools
import json
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError, LMError

from optimizers.errors import MetricError, in_short
from optimizers.metering import OTHER, innermost, metered, predictor_names
from optimizers.run import Run, Stop
from optimizers.sampling import FATAL, derive_seed, read_verdict

DRAWS = 3
"""Answers that are paid for to one question of an optimizer's own, before it may end on one that can't be read."""

MOST_DRAWS = 100
"""Likewise, with those out of the response cache, which a run that goes on finds there, bad ones and all."""


class Enough(BaseException):
    """Ends an optimizer that goes on over any `Exception`; `reason` is what is to be raised instead."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Tuning:
    """The LM, the adapter and the metric for an optimizer that works within a run.

    Args:
        run: The run, on whose overhead every request is booked.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._asked: Counter[str] = Counter()
        self._done = self._failed = 0
        self._lock = threading.Lock()

    def lm(self, lm: Any) -> Any:
        """A copy of `lm` to tune with; it stays one when DSPy copies it for other settings."""
        twin = metered(lm, self._run.overhead, self._name, n=None)
        twin.__class__ = _tuned_class(twin.__class__)
        twin._tuning = self
        return twin

    def adapter(self) -> Any:
        """A copy of the adapter that is set, which draws anew what it can't read."""
        twin = copy.copy(dspy.settings.adapter or dspy.ChatAdapter())
        twin.__class__ = _redrawing_class(twin.__class__)
        twin._tuning = self
        return twin

    def judge(self, example: dspy.Example, prediction: Any, trace: Any = None, *_: Any) -> float:
        """The metric's score."""
        return self._judged(example, prediction)[0]

    def judge_in_words(
        self,
        gold: dspy.Example,
        pred: Any,
        trace: Any = None,
        pred_name: str | None = None,
        pred_trace: Any = None,
    ) -> dspy.Prediction:
        """The metric's score, and as `feedback` in words whatever else it returned."""
        score, details = self._judged(gold, pred)
        told = details.get("feedback") or "; ".join(f"{name}: {value}" for name, value in details.items() if value)
        right = score >= self._run.sampler.threshold
        return dspy.Prediction(score=score, feedback=str(told) or ("This is right." if right else "This is wrong."))

    def _judged(self, example: dspy.Example, prediction: Any) -> tuple[float, dict[str, Any]]:
        try:
            return read_verdict(self._run.sampler.metric(example, prediction))
        except Exception as error:
            raise Enough(MetricError(f"the metric failed: {type(error).__name__}: {error}")) from error

    def next_seed(self, *request: Any) -> int:
        """The seed of a request that is about to be made."""
        if reached := self._run.reached():
            raise Enough(Stop("budget", f"budget reached: {reached}"))
        text = json.dumps(request, default=str)
        with self._lock:
            self._asked[text] += 1
            return derive_seed("tuning", self._run.sampler.sampling.seed, text, self._asked[text])

    def done(self, error: LMError | None = None) -> None:
        """Counts an answer, or the want of one."""
        with self._lock:
            self._done += 1
            self._failed += error is not None
            many = self._run.budget.too_many_failures(self._failed, self._done, 32)
            never = self._failed == self._done  # else the run has something to show for itself
        if isinstance(error, FATAL) or (error is not None and many):
            told = f"the LM cannot be used: {in_short(error)}"
            raise Enough(Stop("failed", told, error if never else None)) from error

    @property
    def reflecting(self) -> bool:
        """Whether it is the optimizer itself that asks, and not the student."""
        return self._name(dspy.settings.caller_modules or []) == OTHER

    def _name(self, callers: Sequence[Any]) -> str:
        outermost = next((module for module in callers if _is_like(module, self._run.program)), None)
        return OTHER if outermost is None else innermost(callers, predictor_names(outermost))


def _is_like(module: Any, program: dspy.Module) -> bool:
    """Whether a module is a copy of the program; optimizers have predictors of their own, with other fields."""
    if isinstance(module, dspy.Predict) and isinstance(program, dspy.Predict):
        return bool(module.signature.fields.keys() == program.signature.fields.keys())
    return isinstance(module, type(program))


class _Tuned:
    """What an LM to tune with does around the class it is mixed into."""

    _tuning: Tuning
    kwargs: dict[str, Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        seed = self._tuning.next_seed(args, kwargs, self.kwargs)
        try:
            answer = super().__call__(*args, **{"seed": seed, **kwargs})  # type: ignore[misc]
        except LMError as error:
            self._tuning.done(error)
            raise
        self._tuning.done()
        return answer


@functools.cache
def _tuned_class(cls: Any) -> Any:
    return type(f"Tuned{cls.__name__}", (_Tuned, cls), {})


class _Paid:
    """A usage tracker that counts the answers that did not come out of the response cache."""

    def __init__(self, outer: Any) -> None:
        self._outer, self.answers = outer, 0

    def add_usage(self, lm: str, usage: dict[str, Any]) -> None:
        self.answers += 1
        if self._outer is not None:
            self._outer.add_usage(lm, usage)


class _Redrawing:
    """What an adapter to tune with does around the class it is mixed into."""

    _tuning: Tuning

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        paid, draws = _Paid(dspy.settings.usage_tracker), 0
        while True:
            draws += 1
            try:
                with dspy.context(usage_tracker=paid):
                    return super().__call__(*args, **kwargs)  # type: ignore[misc]
            except AdapterParseError:
                if not self._tuning.reflecting or paid.answers >= DRAWS or draws >= MOST_DRAWS:
                    raise


@functools.cache
def _redrawing_class(cls: Any) -> Any:
    return type(f"Redrawing{cls.__name__}", (_Redrawing, cls), {})
