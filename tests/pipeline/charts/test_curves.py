"""Curves of solved tasks are drawn in panels, and end where the longest one ends."""

from pathlib import Path

from pipeline.charts.curves import Step, draw_curves


def test_each_panel_has_every_curve_and_the_picture_one_legend(tmp_path: Path) -> None:
    curves = {
        "selection=adaptive": [Step(0, 0, 0, 0), Step(8, 2.5, 1, 4)],
        "selection=resample": [Step(0, 0, 0, 0), Step(6, 2, 2, 2), Step(9, 2, 2, 2)],
    }
    draw_curves({"samples": curves, "tokens": curves}, 4, tmp_path / "curve.svg")
    text = (tmp_path / "curve.svg").read_text()
    assert "samples spent" in text and "tokens spent" in text and "solved tasks, of 4" in text
    assert text.count("selection=adaptive") == text.count("selection=resample") == 1
    assert (tmp_path / "curve.png").stat().st_size > 1000
