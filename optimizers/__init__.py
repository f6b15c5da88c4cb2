"""Optimizers for any `dspy.Module`: adaptive self-improvement learning (paper, Section 3), and none at all.

Nothing here knows the domain: metric, grouping of answers and their length are handed in. To read it in order:
`adaptive` (the algorithm), `run` (an iteration), `sampling` (a sample), `metering` (a request); `selection` and
`filtering` are the algorithm's two functions, `demonstrations` are what solutions become, made of `calls`;
`experience` is the record, whose attempts lie in an `attempt_log`; `observer` is how to listen; `baselines` are DSPy's
own optimizers within such a run, and `tuning` is what they are handed; `arguments` are looked at before all that.
"""

from __future__ import annotations

from optimizers.adaptive import AdaptiveFewShot
from optimizers.attempt import Attempt
from optimizers.attempt_log import AttemptLog
from optimizers.budget import Budget
from optimizers.domain import Domain
from optimizers.errors import MetricError, OptimizerError, UnknownOptimizerError
from optimizers.experience import Entry, Experience, IterationResult, LevelScore, TaskCount
from optimizers.ledger import TokenCount
from optimizers.observer import BaseObserver, IterationStarted, Observer, RunStarted
from optimizers.pass_at_k import pass_at_k
from optimizers.sampling import Sampling
from optimizers.single_pass import SinglePass

__all__ = [
    "AdaptiveFewShot",
    "Attempt",
    "AttemptLog",
    "BaseObserver",
    "Budget",
    "Domain",
    "Entry",
    "Experience",
    "IterationResult",
    "IterationStarted",
    "LevelScore",
    "MetricError",
    "Observer",
    "OptimizerError",
    "RunStarted",
    "Sampling",
    "SinglePass",
    "TaskCount",
    "TokenCount",
    "UnknownOptimizerError",
    "pass_at_k",
]
