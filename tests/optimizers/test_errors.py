"""Errors of a run, and how they are put in one line."""

import pytest

from optimizers import MetricError, OptimizerError, UnknownOptimizerError, UnknownSelectionError
from optimizers.errors import RunStopped, one_line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("  no\nadvice for developers"), "ValueError: no"),
        (KeyError("oops"), "KeyError: 'oops'"),
        (ZeroDivisionError(), "ZeroDivisionError: "),
    ],
)
def test_one_line_is_the_class_and_the_first_line_of_the_message(error: Exception, line: str) -> None:
    """What follows in the message is left out."""
    assert one_line(error) == line


def test_every_error_can_be_caught_as_the_package_s() -> None:
    """Unknown names are values that are wrong; the end of a run is not an error."""
    assert all(issubclass(kind, OptimizerError) for kind in (MetricError, UnknownOptimizerError, UnknownSelectionError))
    assert issubclass(UnknownOptimizerError, ValueError) and issubclass(UnknownSelectionError, ValueError)
    assert not issubclass(RunStopped, OptimizerError)


def test_the_end_of_a_run_has_its_reason_message_and_cause() -> None:
    """The cause is None where nothing failed."""
    cause = TimeoutError("late")
    stop = RunStopped("failed", "no answer", cause)
    assert (stop.stopped, str(stop), stop.cause) == ("failed", "no answer", cause)
    assert RunStopped("budget", "reached").cause is None
