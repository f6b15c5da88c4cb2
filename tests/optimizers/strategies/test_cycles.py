"""Cycles over sets of demonstrations: started over by a solution, ended by a last set that solves nothing."""

from optimizers.strategies.easy_first import EasyFirst
from optimizers.strategies.random_choice import RandomChoice
from tests.support.entries import SOLVED, Progress


def solved_before() -> Progress:
    return Progress({solved.name: solved for solved in SOLVED})


def test_a_run_without_entries_starts_with_a_pass_without_demonstrations() -> None:
    """It ends there where nothing is solved."""
    progress = Progress()
    sets = EasyFirst(2).demo_sets(progress)
    first = next(sets)
    assert (first.label, list(first.demos), first.level, first.cycle) == ("None", [], -1, 0)
    progress.finish(0)
    assert list(sets) == []


def test_a_solution_starts_the_next_cycle_and_a_cycle_without_one_ends_the_run() -> None:
    """Labels have the level and the cycle."""
    progress, shown = solved_before(), []
    for demo_set in EasyFirst(2).demo_sets(progress):
        shown.append((demo_set.label, demo_set.level, demo_set.cycle))
        progress.finish(demo_set.cycle, *(["x"] if len(shown) == 1 else []))
    assert shown == [("easy-1_1", 0, 1), ("easy-1_2", 0, 2), ("easy-2_2", 1, 2)]


def test_candidates_are_the_sets_of_the_cycle_that_would_come_next() -> None:
    """None where nothing is solved."""
    progress = solved_before()
    progress.finish(3)
    assert [demo_set.label for demo_set in EasyFirst(2).candidates(progress)] == ["easy-1_4", "easy-2_4"]
    assert list(EasyFirst(2).candidates(Progress())) == []


def test_what_is_random_depends_on_the_seed_and_the_cycle_alone() -> None:
    """So that a run can be repeated, and resumed in any cycle."""

    def chosen(seed: int, cycle: int) -> list[str]:
        progress = solved_before()
        progress.seed = seed
        progress.finish(cycle)
        return [str(demo_set.demos) for demo_set in RandomChoice().candidates(progress)]

    assert chosen(1, 1) == chosen(1, 1)
    assert len({str(chosen(seed, cycle)) for seed in (1, 2, 3) for cycle in (1, 2)}) > 1
