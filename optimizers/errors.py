"""What can go wrong in a run that is nobody's answer to a task.

OptimizerError
├── MetricError             the metric raised, or returned what is no score
└── UnknownOptimizerError   no optimizer has that name

An LM that cannot be used at all surfaces as DSPy's own `LMError`; a failed sample is data, an `Attempt`.
"""

from __future__ import annotations


class OptimizerError(Exception):
    """Base of this package's errors."""


class MetricError(OptimizerError):
    """The metric failed on a prediction: a broken machine, which must not pass for a wrong answer."""


class UnknownOptimizerError(OptimizerError, ValueError):
    """No optimizer has the name asked for."""


def in_short(error: BaseException) -> str:
    """An error's class and the first line of its message; some go on with advice that is meant for developers."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
