"""Errors of a run that are not a wrong answer to a task.

OptimizerError
├── MetricError             the metric raises too often, or returns no score
├── NoAnswerError           the LM's reply is paid for, and holds no answer
├── TemperatureError        the LM refuses a sampling temperature
└── UnknownSelectionError   no selection strategy has that name

An LM that cannot be used at all surfaces as DSPy's own `LMError`; a failed sample is data, an `Attempt`.
`SampleError` is an `LMError` that says nothing about other requests; after an `UnavailableError` none is answered.
`RunStopped` is not an error: it ends a run early, and never leaves `compile`.
"""

from __future__ import annotations

import contextlib
from typing import Any

from dspy.utils.exceptions import LMError, LMProviderError


class OptimizerError(Exception):
    """Base of this package's errors."""


class MetricError(OptimizerError):
    """The metric fails on a prediction, which must not count as a wrong answer.

    A metric that raises a `MetricError` itself ends the run at once; other exceptions only cost their attempts.

    Attributes:
        fatal: Whether the metric cannot be used at all.
    """

    fatal = True

    @classmethod
    def of(cls, error: Exception, place: str) -> MetricError:
        """The error for an exception of the metric."""
        fatal = isinstance(error, MetricError)
        wrapped = cls(f"the metric failed{place}: {error if fatal else one_line(error)}")
        wrapped.fatal, wrapped.__cause__ = fatal, (error.__cause__ if fatal else None) or error
        return wrapped


class NoAnswerError(OptimizerError, LMProviderError):
    """The LM's reply holds no answer that could be judged, such as one that its provider's filter withheld."""


class TemperatureError(OptimizerError, ValueError):
    """The LM refuses a sampling temperature, as models that reason do: no sample at it would be answered."""


class UnknownSelectionError(OptimizerError, ValueError):
    """No selection strategy has the requested name."""


class SampleError(LMError):
    """One request failed for a reason of its own, such as a lost worker: only its sample has no answer."""


class UnavailableError(LMError):
    """The LM or the judge is lost for good, such as a cluster: no request will be answered. The message says why."""


class RunStopped(Exception):
    """Ends a run early.

    Attributes:
        stopped: Why, in the words of `Experience.stopped`.
        message: One line for people.
        cause: The error of the LM or the program, if that was the reason.
    """

    def __init__(self, stopped: str, message: str, cause: Exception | None = None) -> None:
        super().__init__(message)
        self.stopped, self.message, self.cause = stopped, message, cause

    def unusable(self, scored: bool) -> Exception | None:
        """The cause, if it is to be raised: nothing was scored, or metric or temperatures cannot be used."""
        fatal = isinstance(self.cause, TemperatureError) or (isinstance(self.cause, MetricError) and self.cause.fatal)
        return self.cause if fatal or not scored else None


def attach_experience(error: BaseException, experience: Any) -> None:
    """Makes the record of a run the `experience` of the exception that ended it, and says so in its traceback."""
    with contextlib.suppress(AttributeError, TypeError):  # a class may allow no attributes
        error.experience = experience  # type: ignore[attr-defined]
        note = "Samples until then are in the `experience` of this exception."
        if experience.attempts and note not in getattr(error, "__notes__", ()):
            error.add_note(note)


def one_line(error: BaseException) -> str:
    """An error's class and the first line of its message; some messages continue with advice for developers."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
