"""Pictures hold the values they are given, in percent."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from optimizers import Experience, pass_at_k
from pipeline.charts.plots import (
    Panel,
    draw_pass_at_k,
    final_counts,
    learning_panel,
    pass_at_k_curve,
    plot,
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
    plot(PATH, learning_panel({"run": [(100, 0.25), (300, 0.5)]}, 16, ["1: None", "2: H_1"]))
    (axes,) = drawn[0].axes
    assert values(axes.lines[0]) == ([100, 300], [25, 50])
    assert [text.get_text() for text in axes.texts] == ["1: None", "2: H$_{1}$"]
    assert axes.get_ylabel() == "pass@16 (% of tasks)"


def test_labels_of_points_at_one_place_do_not_overlap(drawn: list[Figure]) -> None:
    plot(PATH, learning_panel({"run": [(100, 0.5)] * 4}, 4, [f"{n}: H_{n}" for n in range(4)]))
    offsets = [text.xyann for text in drawn[0].axes[0].texts]  # type: ignore[attr-defined]
    assert len(set(offsets)) == 4


def test_pass_at_k_has_ticks_at_powers_of_two_and_at_the_largest_k(drawn: list[Figure]) -> None:
    """One curve alone has no legend; the axes keep their size where many have one."""
    curve = [0.1 * k for k in range(1, 7)]
    for count in (1, 2, 9):
        draw_pass_at_k({f"run {n}": curve for n in range(count)}, PATH)
    alone, few, many = drawn
    assert [tick.get_text() for tick in alone.axes[0].get_xticklabels()] == ["1", "2", "4", "6"]
    assert values(alone.axes[0].lines[0])[1] == pytest.approx([10, 20, 30, 40, 50, 60])
    assert [len(figure.legends) for figure in drawn] == [0, 1, 1]
    assert many.get_size_inches()[1] > few.get_size_inches()[1]


def test_bars_stand_side_by_side_or_on_each_other(drawn: list[Figure]) -> None:
    """A series has one colour in all panels, and in pictures of one order."""
    series = {"right": [(0, 25), (1, 50)], "wrong": [(0, 75), (1, 40)]}
    plot(PATH, *(Panel(series, "%", kind=kind, names=["a", "b"]) for kind in ("bar", "stack")), rows=2)
    plot(PATH, Panel({"wrong": [(0, 5)]}, "%", kind="bar", names=["a"]), order=list(series))
    beside, above = ([bars.patches for bars in axes.containers] for axes in drawn[0].axes)
    assert [bar.get_y() for bar in beside[1]] == [0, 0] and [bar.get_y() for bar in above[1]] == [25, 50]
    assert [bar.get_height() for bar in above[1]] == [75, 40]
    assert beside[0][0].get_x() < beside[1][0].get_x() and above[0][0].get_x() == above[1][0].get_x()
    (alone,) = drawn[1].axes[0].containers
    assert alone.patches[0].get_facecolor() == beside[1][0].get_facecolor() == above[1][0].get_facecolor()


def test_a_picture_has_each_curve_in_each_panel_and_one_legend(tmp_path: Path) -> None:
    """The same figure gives the same bytes; an SVG keeps texts, follows the dark mode, and has a PNG beside it."""
    curves = {"adaptive": [(0, 0, 0, 0), (8, 2.5, 1, 4)], "resample": [(0, 0, 0, 0), (6, 2, 2, 2), (9, 2, 2, 2)]}
    for name in ("a", "b"):
        panels = [Panel(curves, "solved", f"{along} spent", kind="step", top=4) for along in ("samples", "tokens")]
        plot(tmp_path / f"{name}.svg", *panels)
    text = (tmp_path / "a.svg").read_text()
    assert ">samples spent</text>" in text and "tokens spent" in text
    assert text.count("adaptive<") == text.count("resample<") == 1 and "prefers-color-scheme: dark" in text
    assert text == (tmp_path / "b.svg").read_text()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def experience() -> Experience:
    return learn([])


def test_pass_at_k_over_k_ends_at_the_recorded_figures(experience: Experience) -> None:
    """pass@1 and pass@n of the curve are those of the last iteration, at the best temperature or over all."""
    last = experience.iterations[-1]
    curve = pass_at_k_curve(final_counts(experience.iterations), len(experience.tasks), 2)
    assert curve == [pytest.approx(last.pass_at_1), pytest.approx(last.pass_at_n)]
    counts = pooled_counts(experience.iterations)
    curve = pass_at_k_curve(counts, len(experience.tasks), counts[0].samples)
    assert (curve[0], curve[-1]) == (pytest.approx(last.pass_at_1_pooled), pytest.approx(last.pass_at_n))
    exact = [sum(pass_at_k(n, c, k) for n, c in ((7, 2), (7, 0), (7, 7))) / 4 for k in range(1, 8)]
    rates = [replace(counts[0], samples=n, successes=c) for n, c in ((7, 2), (7, 0), (7, 7))]
    assert pass_at_k_curve(rates, 4, 7) == pytest.approx(exact, abs=1e-12)
    assert (title(0, "None"), title(-1, "H_3")) == ("1: None", "validating H_3")
