"""The pictures among a run's artifacts: the learning curve and pass@k."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from optimizers import IterationResult
from pipeline.charts import plots
from pipeline.charts.plots import final_counts, learning_points, pass_at_k_curve, title


def draw(iterations: Sequence[IterationResult], tasks: int, samples: int, folder: Path) -> None:
    """Draws `learning_curve.png` and `pass_at_k.png` of at least one iteration into a folder.

    `samples` are those per task and temperature.
    """
    curves = {title(it.index, it.label): final_counts([it]) for it in iterations[:1]}
    if len(iterations) > 1:
        curves["all iterations"] = final_counts(iterations)
    plots.learning_curve(learning_points(iterations), samples, folder / "learning_curve.png")
    values = {name: pass_at_k_curve(counts, tasks, samples) for name, counts in curves.items()}
    plots.pass_at_k(values, folder / "pass_at_k.png")
