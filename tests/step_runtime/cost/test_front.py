"""The front holds every program that no other beats, and only those."""

from random import Random

from step_runtime.base.units import FIGURES
from step_runtime.cost.front import TRADED, Figures, beats, figures_key, pareto_front


def figures(*values: float) -> Figures:
    return dict(zip(FIGURES, values, strict=True))


def test_programs_that_another_beats_are_left_out() -> None:
    """Of programs of equal cost the first stays; the objective decides the order."""
    small, fast, both, worse = (
        figures(1, 5, 5, 9, 0),
        figures(9, 5, 5, 1, 0),
        figures(1, 5, 5, 9, 0),
        figures(9, 9, 9, 9, 0),
    )
    assert pareto_front([worse, small, both, fast], lambda one: one, "memory") == [small, fast]
    assert pareto_front([worse, small, both, fast], lambda one: one, "time") == [fast, small]
    assert figures_key(small, "memory") < figures_key(fast, "memory")


def test_invalid_programs_beat_nothing() -> None:
    """What the cheapest would have beaten takes its place, and nothing that is beaten is asked about."""
    programs = [figures(value, value, value, value, 0) for value in (3, 1, 2, 4)]
    asked: list[float] = []

    def valid(one: Figures) -> bool:
        asked.append(one["memory"])
        return one["memory"] != 1

    assert pareto_front(programs, lambda one: one, "memory", valid) == [programs[2]]
    assert asked == [1, 2]


def test_the_front_of_random_programs_is_that_of_the_definition() -> None:
    rng = Random(0)
    for _ in range(50):
        programs = [figures(*(rng.randint(0, 3) for _ in FIGURES)) for _ in range(12)]
        front = pareto_front(programs, lambda one: one, rng.choice(TRADED))
        for program in programs:
            strictly = [other for other in programs if beats(other, program) and not beats(program, other)]
            kept = any(beats(other, program) and beats(program, other) for other in front)
            assert kept == (not strictly)
