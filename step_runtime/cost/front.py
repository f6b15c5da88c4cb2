"""The Pareto front of several programs' costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from step_runtime.base.units import FIGURES, Figure

TRADED: tuple[Figure, ...] = ("memory", "time", "traffic", "operations")
"""The figures that are traded for one another; queues are part of the memory."""

Figures = Mapping[Figure, float]
T = TypeVar("T")


def figures_key(figures: Figures, objective: Figure) -> tuple[float, ...]:
    """The order of two programs: by the objective, then by the other figures in their order."""
    return (figures[objective], *(figures[figure] for figure in FIGURES if figure != objective))


def beats(one: Figures, other: Figures) -> bool:
    """Whether a program costs no more by any traded figure; two of equal cost beat each other."""
    return all(one[figure] <= other[figure] for figure in TRADED)


def pareto_front(
    programs: Iterable[T], figures: Callable[[T], Figures], objective: Figure, valid: Callable[[T], bool] | None = None
) -> list[T]:
    """The programs that no other program beats, the cheapest by the objective first; of equal programs the first.

    `valid` is asked only of those that nothing before has beaten.
    """
    front: list[T] = []
    # A program that beats another comes before it in this order.
    for program in sorted(programs, key=lambda program: figures_key(figures(program), objective)):
        if not any(beats(figures(kept), figures(program)) for kept in front) and (valid is None or valid(program)):
            front.append(program)
    return front
