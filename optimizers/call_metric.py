"""Calls of a user's metric, in every form that DSPy's optimizers accept.

Invariant: a metric is handed no more than it asks for.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import math
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, SupportsFloat

import dspy

from optimizers.errors import MetricError

Metric = Callable[..., Any]

JUDGE = "LM judge"
"""The name in records for requests of a metric; its space keeps it apart from names of predictors."""

ARGUMENTS = 5
"""The most arguments of a metric, as for DSPy's GEPA: example, prediction, trace, predictor's name, its trace."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def checked_metric(metric: Any, traced: bool = True) -> Metric:
    """The metric as a function of an example, a prediction and a trace.

    A metric that requires more than an example and a prediction gets the trace, and None for what only DSPy's GEPA has.
    One with an optional `trace` gets it if `traced`: by it DSPy's metrics, such as `SemanticF1`, know that they select
    demonstrations, and say whether an answer is right in place of how good it is. A coroutine is awaited.

    Raises:
        TypeError: It is not a function, or not one of an example and a prediction.
    """
    expected = "expected a function of an example and a prediction"
    if not callable(metric):
        raise TypeError(f"metric: {expected}, found {type(metric).__name__}")
    try:
        named = inspect.signature(metric.forward if isinstance(metric, dspy.Module) else metric).parameters
    except (AttributeError, TypeError, ValueError):  # some functions written in C have no signature
        return lambda example, prediction, trace: resolved(metric(example, prediction))
    parameters = named.values()
    required = [each for each in parameters if each.default is each.empty]
    positional = sum(each.kind in _POSITIONAL for each in required)
    accepted = sum(each.kind in _POSITIONAL for each in parameters)
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        accepted = ARGUMENTS
    only_named = [each.name for each in required if each.kind is each.KEYWORD_ONLY]
    if accepted < 2 or positional > ARGUMENTS or only_named:
        raise TypeError(f"metric: {expected}, found one of ({', '.join(named)})")
    trace_of = named.get("trace")
    unset = trace_of is not None and trace_of.default is None and trace_of.kind is not _POSITIONAL[0]
    optional = traced and positional <= 2 and unset

    def judge(example: dspy.Example, prediction: Any, trace: Any) -> Any:
        arguments = (example, prediction, trace, None, None)
        return resolved(metric(*arguments[: max(2, positional)], **({"trace": trace} if optional else {})))

    return judge


def resolved(value: Any) -> Any:
    """The value, or the result of awaiting it; also within a running event loop, as in a notebook."""
    if not inspect.isawaitable(value):
        return value
    awaiting = _awaited(value)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(awaiting)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, asyncio.run, awaiting).result()


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


def read_verdict(verdict: Any) -> tuple[float | None, dict[str, Any]]:
    """The score, and the metric's further fields; None for a verdict with the field `unscored` true.

    A metric that gives None, as a function without a `return` does, says that the answer is wrong.

    Raises:
        MetricError: It returned no score.
        ValueError: The score is not a finite number.
    """
    if verdict is None:
        return 0.0, {}
    feedback = dict(verdict.items()) if hasattr(verdict, "items") else {}
    score = feedback.pop("score", None) if feedback else verdict
    if not isinstance(score, SupportsFloat) or isinstance(score, dspy.Prediction):
        found = " ".join(repr(verdict).split())
        raise MetricError(f"it gave {found:.80}, expected a number, a bool, or a prediction with a score")
    if not math.isfinite(score):
        raise ValueError(f"it gave a score of {score}, expected a finite number")
    return None if feedback.get("unscored") else float(score), feedback
