"""Optimizers for any `dspy.Module`: adaptive self-improvement learning (paper, Section 3), and baselines.

Nothing here knows the domain: metric, grouping of answers and their length are arguments. To read it in order:
`adaptive` (the optimizer), `strategies` (what it shows next), `driver` (compiling), `run` (an iteration),
`sampling_loop` (also without learning), `sampling` (a sample), `metric` (its verdict), `metering` (a request), whose
parts are `call_seeds`, `deadline`, `temperatures` and `usage`. `context_fit` says how many demonstrations fit, by
`context_window` and `prompt_sizes`. `filtering` is the algorithm's function sigma, and `solutions` its choices;
`held_out` marks solutions that fall when they are judged once more; `demonstrations` are made of solutions and of a
`call_trace`; `candidates` could have been the result, on which there are `closing_remarks`; `experience` is the record,
whose attempts are in an `attempt_log`; `observer` is how to listen, also with DSPy's callbacks, and `autologging`
MLflow's way; `baselines` are DSPy's own optimizers within such a run, which `tuning` serves; `per_query` chooses
demonstrations for each query; `arguments` are checked first.
"""

from __future__ import annotations

from optimizers.adaptive import AdaptiveFewShot
from optimizers.attempt import Attempt
from optimizers.attempt_log import AttemptLog
from optimizers.baselines import SinglePass
from optimizers.budget import Budget
from optimizers.domain import Domain
from optimizers.errors import (
    MetricError,
    NoAnswerError,
    OptimizerError,
    SampleError,
    TemperatureError,
    UnknownOptimizerError,
    UnknownSelectionError,
)
from optimizers.experience import Entry, Experience, IterationResult, LevelScore, TaskCount
from optimizers.held_out import HeldOutVerdict, Quadrants
from optimizers.ledger import TokenCount
from optimizers.observer import BaseObserver, InFlight, IterationStarted, Observer, RunStarted
from optimizers.pass_at_k import pass_at_k
from optimizers.per_query import PerQuery
from optimizers.sampling import Sampling
from optimizers.strategies.base import DemoSet, Progress, Selection
from optimizers.usage import Price

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
    "Progress",
    "Quadrants",
    "RunStarted",
    "SampleError",
    "Sampling",
    "Selection",
    "SinglePass",
    "TaskCount",
    "TemperatureError",
    "TokenCount",
    "UnknownOptimizerError",
    "UnknownSelectionError",
    "pass_at_k",
]
