"""What each strategy shows, and in which order."""

import math
import random
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers import Budget
from optimizers.baselines import SinglePass
from optimizers.strategies.adaptive import Adaptive
from optimizers.strategies.base import DemoSet, Trial
from optimizers.strategies.coverage import Coverage
from optimizers.strategies.easy_first import EasyFirst
from optimizers.strategies.everything import Everything
from optimizers.strategies.hard_first import HardFirst
from optimizers.strategies.hybrid import Hybrid
from optimizers.strategies.mmr import MaximalMarginalRelevance
from optimizers.strategies.none import NoDemonstrations, Resample
from optimizers.strategies.random_choice import RandomChoice
from optimizers.strategies.similar import Similar
from optimizers.strategies.structure import Weights, utilities
from optimizers.strategies.utility import Utility
from tests.support.entries import SOLVED, Progress, candidate, names, picked
from tests.support.scripted_program import is_right, learn, story


def test_the_only_set_is_everything_hardest_first() -> None:
    """Whatever the number of entries."""
    assert names(Everything().order(SOLVED, random.Random(0))) == ["abcde"]
    assert names(Everything().order(SOLVED[:1], random.Random(0))) == ["e"]
    assert Everything().level_label(0) == "all"


def test_three_levels_are_called_by_letters_and_others_by_numbers() -> None:
    assert [Adaptive(3).level_label(j) for j in range(3)] == ["H", "HM", "HME"]
    assert [Adaptive(4).level_label(j) for j in range(4)] == ["1", "12", "123", "1234"]
    assert Adaptive(10).level_label(9).endswith("-9-10")


COVERING = [candidate("a", "wxy"), candidate("b", "wx"), candidate("c", "z"), candidate("d", "xyz", 1000)]


def test_each_adds_a_structure_and_nothing_comes_after_all_is_covered() -> None:
    """Per token: `d` has two of the structures, and is a hundred times as long."""
    assert picked(Coverage(), "wxyz", COVERING) == "ac"


def test_it_starts_over_while_tokens_are_left() -> None:
    assert picked(Coverage(), "wxyz", COVERING, 30) == "acb"
    assert picked(Coverage(), "wxyz", COVERING, 29) == "ac"


def test_the_hardest_are_shown_where_nothing_bears_on_the_task() -> None:
    """The pool is in this order."""
    assert picked(Coverage(), "q", COVERING) == "abcd"
    assert picked(Coverage(), "q", COVERING, 20) == "ab"


@given(
    st.text("uvwxyz", max_size=6),
    st.lists(st.tuples(st.text("uvwxyz", max_size=4), st.integers(0, 50)), max_size=8),
    st.none() | st.integers(0, 120),
)
def test_it_ends_within_the_tokens_and_shows_nothing_twice(
    query: str, solved: list[tuple[str, int]], tokens: int | None
) -> None:
    pool = [candidate(chr(65 + place), structures, size) for place, (structures, size) in enumerate(solved)]
    found = picked(Coverage(), query, pool, tokens)
    assert len(set(found)) == len(found)
    assert tokens is None or sum(each.tokens for each in pool if each.entry.task_key in found) <= tokens
    known = frozenset().union(*(each.structures for each in pool)) & frozenset(query)
    if tokens is None and known:
        covered = frozenset().union(*(each.structures for each in pool if each.entry.task_key in found))
        assert known <= covered


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


def test_sets_grow_from_the_easiest_level_to_everything() -> None:
    """Within a level the hardest comes first."""
    assert names(EasyFirst(3).order(SOLVED, random.Random(0))) == ["e", "ecd", "ecdab"]
    assert names(EasyFirst(1).order(SOLVED, random.Random(0))) == ["abcde"]


def test_labels_count_levels_from_the_easiest() -> None:
    """The first set is of one level."""
    assert [EasyFirst().level_label(level) for level in range(2)] == ["easy-1", "easy-2"]


@pytest.mark.parametrize(("count", "expected"), [(5, "abc"), (4, "ab"), (2, "a"), (1, "e")])
def test_the_half_is_rounded_up_and_hardest_first(count: int, expected: str) -> None:
    """By rank, whatever the rates are."""
    (found,) = names(HardFirst().order(SOLVED[:count], random.Random(0)))
    assert found == expected
    assert HardFirst().level_label(0) == "hardest"


def test_the_pools_are_those_of_adaptive() -> None:
    rng = random.Random(0)
    assert names(Hybrid(2).order(SOLVED, rng)) == names(Adaptive(2).order(SOLVED, rng))
    assert [Hybrid(3).level_label(level) for level in range(3)] == ["hybrid-H", "hybrid-HM", "hybrid-HME"]


def test_what_helped_wins_among_equals_and_what_harmed_comes_last() -> None:
    pool = [candidate("a", "xy", value=-2.0), candidate("b", "xy"), candidate("c", "xy", value=0.1)]
    assert picked(Hybrid(), "xy", pool) == "c"
    assert picked(Hybrid(), "xy", pool, 30) == "cba"


ALIKE = [candidate("a", "wxy"), candidate("b", "wxy"), candidate("c", "zv"), candidate("d", "t", 500)]


def test_what_repeats_a_chosen_one_comes_later() -> None:
    """`b` equals `a`, which `similar` does not mind."""
    assert picked(Similar(most=2), "wxyz", ALIKE) == "ab"
    assert picked(MaximalMarginalRelevance(most=2, relevance=0.5), "wxyz", ALIKE) == "ac"


def test_relevance_alone_is_similarity() -> None:
    assert picked(MaximalMarginalRelevance(relevance=1), "wxyz", ALIKE) == picked(Similar(), "wxyz", ALIKE)


def test_what_does_not_fit_is_passed_over() -> None:
    assert "d" not in picked(MaximalMarginalRelevance(), "t", ALIKE, 30)
    assert picked(MaximalMarginalRelevance(), "t", ALIKE, 500) == "d"


def test_one_set_without_demonstrations_whatever_is_solved() -> None:
    """The compiled program carries none either."""
    progress = Progress({solved.name: solved for solved in SOLVED})
    assert list(NoDemonstrations().demo_sets(progress)) == [DemoSet("None")]
    assert list(NoDemonstrations("mipro", "mipro").demo_sets(progress)) == [DemoSet("mipro")]
    assert list(NoDemonstrations().candidates(progress)) == []


def late(task: str, demos: tuple[str, ...], visit: int) -> int:
    """`a` is solved in the first pass, `b` in the third, `x` never."""
    return int(task == "a" or (task == "b" and visit == 2))


def test_resample_samples_what_is_unsolved_until_a_limit() -> None:
    """Nothing is shown, no two samples have one seed, and a limit of tokens ends it as one of iterations does."""
    assert list(islice(Resample().demo_sets(Progress({})), 3)) == [DemoSet("None")] * 3
    compiled = learn("abx", late, selection="resample", budget=Budget(iterations=4))
    assert story(compiled) == ["None: - -> a", "None: - -> -", "None: - -> b", "None: - -> -"]
    experience = compiled.experience
    assert (experience.stopped, compiled.solve.demos) == ("budget", [])
    assert len({attempt.seed for attempt in experience.attempts}) == len(experience.attempts) == 4 * (3 + 2 + 2 + 1)
    tokens = sum(count.total for count in experience.tokens.values())
    matched = learn("abx", late, selection="resample", budget=Budget(tokens=tokens), threads=1).experience
    assert [attempt.seed for attempt in matched.attempts] == [attempt.seed for attempt in experience.attempts]


def test_resample_without_a_limit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"selection: `resample` ends at a limit only; give a budget"):
        learn("a", late, selection="resample")


def test_a_single_pass_resamples_on_demand() -> None:
    """With as many passes as the budget allows; otherwise it is one, whatever the budget allows."""
    once = SinglePass(is_right, 4, budget=Budget(iterations=3))
    again = SinglePass(is_right, 4, resample=True, budget=Budget(iterations=3))
    assert [each.get_params()["selection"] for each in (once, again)] == ["none", "resample"]


RATES = {"a": 1, "b": 2, "c": 3, "d": 4}


def unaided(task: str, demos: tuple[str, ...], visit: int) -> int:
    return RATES.get(task, 0)


def test_random_sets_have_the_sizes_of_the_levels_and_repeat_with_the_seed() -> None:
    def sets(seed: int) -> list[tuple[str, ...]]:
        results = learn("abcdx", unaided, selection="random", seed=seed).experience.iterations
        assert [result.label for result in results] == ["None", "random-1_1", "random-2_1", "random-3_1"]
        return [result.demos for result in results[1:]]

    assert sets(1) == sets(1)
    assert [len(demos) for demos in sets(1)] == [2, 3, 4]
    assert len({str(sets(seed)) for seed in range(5)}) > 1


NEAR = [candidate("a", "xyz"), candidate("b", "wx", 30), candidate("c", "xyv"), candidate("d", "uv", 5)]


@pytest.mark.parametrize(
    ("query", "tokens", "expected"),
    [("xyz", None, "acb"), ("xyz", 25, "acd"), ("xyz", 4, ""), ("w", None, "bac"), ("", 100, "abcd")],
)
def test_the_nearest_come_first_and_what_does_not_fit_is_passed_over(
    query: str, tokens: int | None, expected: str
) -> None:
    """Without a limit of tokens there are at most three here; equals keep the order of the pool."""
    assert picked(Similar(most=3), query, NEAR, tokens) == expected


STRUCTURED = [candidate("a", "xy"), candidate("b", "x"), candidate("c", "xz")]


def test_rare_structures_weigh_more_and_unknown_ones_nothing() -> None:
    weights = Weights([each.structures for each in STRUCTURED])
    assert weights.total(frozenset("x")) == pytest.approx(math.log(2))
    assert weights.total(frozenset("y")) == pytest.approx(math.log(4))
    assert weights.total(frozenset("q")) == 0 and weights.total(frozenset("xyq")) == pytest.approx(math.log(8))
    assert weights.heaviest(frozenset("xyzq"), 2) == ["y", "z"]


def test_similarity_is_the_share_of_weight_that_both_have() -> None:
    weights = Weights([each.structures for each in STRUCTURED])
    assert weights.similarity(frozenset("xy"), frozenset("xy")) == 1
    assert weights.similarity(frozenset("x"), frozenset("xy")) == pytest.approx(1 / 3)
    assert weights.similarity(frozenset("x"), frozenset("y")) == 0 == weights.similarity(frozenset(), frozenset("q"))


def test_a_value_moves_by_what_the_task_gained_over_its_own_mean() -> None:
    """Equation by equation; a demonstration that was never shown has no value."""
    trials = [Trial("t", (), 0.2), Trial("t", ("a", "b"), 0.6), Trial("u", ("b",), 0.5), Trial("t", ("a",), 0.4)]
    a = 0.5 * (0.6 - 0.2)
    b = 0.5 * (0.6 - 0.2)
    b += 0.5 * (0.5 - b)
    a += 0.5 * ((0.4 - 0.4) - a)
    assert dict(utilities(trials, 0.5)) == pytest.approx({"a": a, "b": b})


USEFUL = [candidate("a", "xyz"), candidate("b", "xy", value=0.6), candidate("c", "x"), candidate("d", "q", value=9.0)]


def test_the_most_useful_of_the_nearest_comes_first() -> None:
    """`d` was worth most, and is not near."""
    assert picked(Utility(most=2, nearest=3), "xyz", USEFUL) == "ba"
    assert picked(Utility(most=2, nearest=4), "xyz", USEFUL) == "db"
    assert picked(Utility(nearest=3), "xyz", USEFUL, 10) == "b"
