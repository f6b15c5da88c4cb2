"""The values of pictures follow from the iterations."""

from __future__ import annotations

import pytest

from optimizers import Experience
from pipeline.charts.curves import final_counts, learning_points, pass_at_k_curve, title
from tests.support.scripted_runs import learn


@pytest.fixture(scope="module")
def experience() -> Experience:
    return learn([])


def test_the_curve_follows_from_the_iterations(experience: Experience) -> None:
    """Points are labelled as the paper's Figure 7 labels them, iterations counted from 1."""
    points = learning_points(experience.iterations)
    assert [point.label for point in points] == ["1: None", "2: H_1", "3: H_2", "4: HM_2"]
    assert [round(point.pass_at_n, 3) for point in points] == [0.333, 0.667, 0.667, 0.667]
    assert title(-1, "H_3") == "validating H_3"


def test_pass_at_k_over_k_ends_at_the_recorded_figures(experience: Experience) -> None:
    """pass@1 and pass@n of the curve are those of the last iteration."""
    last = experience.iterations[-1]
    curve = pass_at_k_curve(final_counts(experience.iterations), len(experience.tasks), 2)
    assert curve == [pytest.approx(last.pass_at_1), pytest.approx(last.pass_at_n)]
