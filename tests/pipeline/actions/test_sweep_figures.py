"""Figures of a sweep: means with Student's intervals, and curves that are means over the seeds."""

import pytest

from pipeline.actions import sweep_figures as action


def test_an_interval_is_student_s() -> None:
    """As scipy's own test has it; of one run there is none."""
    from scipy.stats import ttest_1samp

    values = [3.0, 4.5, 4.0, 7.0]
    expected = ttest_1samp(values, 0).confidence_interval(0.95)
    found = action.interval(values)
    assert found["mean"] == pytest.approx(4.625)
    assert (found["low"], found["high"]) == (pytest.approx(expected.low), pytest.approx(expected.high))
    assert action.interval([2.0]) == {"mean": 2.0, "low": None, "high": None}
    assert action.interval([]) == {"mean": None, "low": None, "high": None}


def test_a_mean_curve_keeps_the_last_value_of_a_run_that_has_ended() -> None:
    """Between its points a run has what it had at the one before."""
    one = [{"samples": 0.0, "solved": 0.0}, {"samples": 4.0, "solved": 2.0}]
    other = [{"samples": 0.0, "solved": 0.0}, {"samples": 6.0, "solved": 4.0}]
    steps = action._mean_curve([one, other], "samples")
    assert [(x, mean) for x, mean, _, _ in steps] == [(0, 0), (4, 1), (6, 3)]
    assert all(low < mean < high for _, mean, low, high in steps[1:])


def test_runs_that_take_a_step_almost_together_take_one_step() -> None:
    """No point of the curve lies where only some of them have taken it."""
    runs = [[{"tokens": 0.0, "solved": 0.0}, {"tokens": 4_600_000.0 + late, "solved": 18.0}] for late in (0, 9, 400)]
    steps = action._mean_curve(runs, "tokens")
    assert [(x, mean) for x, mean, *_ in steps] == [(0, 0), (4_600_400, 18)]
