"""Optimizers for any `dspy.Module`: adaptive self-improvement learning (paper, Section 3), and baselines.

Nothing here knows the domain: metric, grouping of answers and their length are arguments. To read it in order:
`adaptive` (the optimizer), `run` (its loop) over a `state` (what it knows), `strategies` (what it shows next),
`sampling_loop` (until all samples are made), `sampling` (one of them), `requests` (a sample's LMs), `metering` (what a
request costs), `solutions` (the algorithm's function sigma), `demonstrations` (of solutions, from a `call_trace`), and
`experience`, the record. `observer` is how to listen; `baselines` are DSPy's own optimizers within such a run, which
`tuning` serves; `per_query` chooses demonstrations for each query.
"""

from __future__ import annotations

from optimizers.adaptive import AdaptiveFewShot, SinglePass
from optimizers.attempt import Attempt, AttemptLog, pass_at_k
from optimizers.budget import Budget
from optimizers.domain import Domain, HeldOutVerdict, Quadrants
from optimizers.errors import (
    MetricError,
    NoAnswerError,
    OptimizerError,
    SampleError,
    TemperatureError,
    UnknownSelectionError,
)
from optimizers.experience import Entry, Experience, IterationResult, LevelScore, TaskCount
from optimizers.ledger import Price, TokenCount
from optimizers.observer import BaseObserver, InFlight, IterationStarted, Observer, RunStarted
from optimizers.per_query import PerQuery
from optimizers.sampling import Sampling
from optimizers.strategies import DemoSet, Selection

__all__ = [
    "AdaptiveFewShot",
    "Attempt",
    "AttemptLog",
    "BaseObserver",
    "Budget",
    "DemoSet",
    "Domain",
    "Entry",
    "Experience",
    "HeldOutVerdict",
    "InFlight",
    "IterationResult",
    "IterationStarted",
    "LevelScore",
    "MetricError",
    "NoAnswerError",
    "Observer",
    "OptimizerError",
    "PerQuery",
    "Price",
    "Quadrants",
    "RunStarted",
    "SampleError",
    "Sampling",
    "Selection",
    "SinglePass",
    "TaskCount",
    "TemperatureError",
    "TokenCount",
    "UnknownSelectionError",
    "pass_at_k",
]
