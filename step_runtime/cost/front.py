"""The order of programs by what they cost."""

from __future__ import annotations

from collections.abc import Mapping

from step_runtime.base.units import FIGURES, Figure

TRADED: tuple[Figure, ...] = ("memory", "time", "traffic", "operations")
"""The figures that are traded for one another; queues are part of the memory."""

Figures = Mapping[Figure, float]


def figures_key(figures: Figures, objective: Figure) -> tuple[float, ...]:
    """The order of two programs: by the objective, then by the other figures in their order."""
    return (figures[objective], *(figures[figure] for figure in FIGURES if figure != objective))
