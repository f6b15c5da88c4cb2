"""Pictures hold the values they are given, in percent; nothing is rendered here."""

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from optimizers import Experience
from pipeline.charts.plots import (
    MAX_SERIES_INSIDE,
    CurvePoint,
    final_counts,
    learning_curve,
    learning_points,
    pass_at_k,
    pass_at_k_curve,
    pooled_counts,
    title,
)
from tests.support.scripted_runs import learn

PATH = Path("empty.png")


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Figure]:
    """The figures that would have been saved."""
    monkeypatch.chdir(tmp_path)
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **_: figures.append(figure))
    return figures


def values(line: Any) -> tuple[list[float], list[float]]:
    return [float(x) for x in line.get_xdata()], [float(y) for y in line.get_ydata()]


def test_a_learning_curve_has_a_labelled_point_for_each_iteration(drawn: list[Figure]) -> None:
    """Cycles stand as subscripts, as in the paper; the axis says what n is."""
    learning_curve([CurvePoint(100, 0.25, "1: None"), CurvePoint(300, 0.5, "2: H_1")], 16, PATH)
    (axes,) = drawn[0].axes
    assert values(axes.lines[0]) == ([100, 300], [25, 50])
    assert [text.get_text() for text in axes.texts] == ["1: None", "2: H$_{1}$"]
    assert axes.get_ylabel() == "pass@16 (% of tasks)"


def test_labels_of_points_at_one_place_do_not_overlap(drawn: list[Figure]) -> None:
    """Each stands where it covers no earlier one."""
    learning_curve([CurvePoint(100, 0.5, f"{n}: H_{n}") for n in range(4)], 4, PATH)
    offsets = [text.xyann for text in drawn[0].axes[0].texts]  # type: ignore[attr-defined]
    assert len(set(offsets)) == 4


def test_pass_at_k_has_ticks_at_powers_of_two_and_at_the_largest_k(drawn: list[Figure]) -> None:
    """One curve alone has no legend, a few have it inside, many below."""
    curve = [0.1 * k for k in range(1, 7)]
    for count in (1, 2, MAX_SERIES_INSIDE + 1):
        pass_at_k({f"run {n}": curve for n in range(count)}, PATH)
    alone, few, many = drawn
    assert [tick.get_text() for tick in alone.axes[0].get_xticklabels()] == ["1", "2", "4", "6"]
    assert values(alone.axes[0].lines[0])[1] == pytest.approx([10, 20, 30, 40, 50, 60])
    assert [bool(figure.axes[0].get_legend()) for figure in drawn] == [False, True, False]
    assert len(many.legends) == 1 and many.get_size_inches()[1] >= few.get_size_inches()[1]


def test_an_svg_keeps_texts_follows_dark_mode_and_has_a_png_beside_it(tmp_path: Path) -> None:
    """The same figure gives the same bytes, so that a report under version control changes only with its data."""
    for name in ("a", "b"):
        pass_at_k({"run": [0.5, 0.75]}, tmp_path / f"{name}.svg")
    text = (tmp_path / "a.svg").read_bytes()
    assert b">pass@k (% of tasks)</text>" in text and b"prefers-color-scheme: dark" in text
    assert text == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


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
    """pass@1 and pass@n of the curve are those of the last iteration, at the best temperature or over all."""
    last = experience.iterations[-1]
    curve = pass_at_k_curve(final_counts(experience.iterations), len(experience.tasks), 2)
    assert curve == [pytest.approx(last.pass_at_1), pytest.approx(last.pass_at_n)]
    counts = pooled_counts(experience.iterations)
    curve = pass_at_k_curve(counts, len(experience.tasks), counts[0].samples)
    assert (curve[0], curve[-1]) == (pytest.approx(last.pass_at_1_pooled), pytest.approx(last.pass_at_n))
