"""What each strategy shows, and in which order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers import Budget, Domain, OptimizerError, Selection, UnknownSelectionError, strategies
from optimizers.attempt import TaskExample
from optimizers.state import State
from optimizers.strategies import SELECTIONS, Adaptive, DemoSet, Pick, RandomChoice, Resample, cumulative, stratify
from tests.support.scripted_program import Heard, ScriptedEngine, by_task, learn, story

RATES = {"a": 1, "b": 2, "c": 3, "d": 4}


def unaided(task: str, demos: tuple[str, ...], visit: int) -> int:
    return RATES.get(task, 0)


STORIES = {
    "adaptive": ["H_1: ab -> -", "HM_1: abc -> -", "HME_1: abcd -> -"],
    "everything": ["all_1: abcd -> -"],
    "none": [],
}


@pytest.mark.parametrize("name", STORIES)
def test_each_strategy_shows_what_its_name_says_until_a_cycle_solves_nothing(name: str) -> None:
    compiled = learn("abcdx", unaided, selection=name)
    assert story(compiled) == ["None: - -> abcd", *STORIES[name]]
    record = compiled.experience
    assert (record.stopped, record.settings["selection"]) == ("exhausted", name)
    assert [result.cycle for result in record.iterations] == [0] + [1] * len(STORIES[name])
    shown = STORIES[name][0].split()[1] if STORIES[name] else ""
    assert "".join(record.demos) == shown, "the first set of the next cycle"


@pytest.mark.parametrize("name", [name for name in SELECTIONS if name != "resample"])
def test_every_strategy_starts_over_once_something_is_solved(name: str) -> None:
    def script(task: str, demos: tuple[str, ...], visit: int) -> int:
        return {"x": 1, "y": 0}[task] if task in "xy" and demos else RATES.get(task, 0)

    domain = Domain(task_key=by_task, relevance=lambda *of: 1.0)
    first, *later = learn("abcdxy", script, selection=name, domain=domain).experience.iterations
    assert first.solved == tuple("abcd")
    assert [(it.cycle, it.level, it.solved) for it in later[:2]] == [(1, 0, ("x",)), (2, 0, ())] * (name != "none")


def test_a_strategy_goes_by_its_name_in_the_registry() -> None:
    for name in SELECTIONS:
        selection = strategies.make_selection(name)
        assert isinstance(selection, Selection) and selection.name == name
    assert strategies.make_selection(own := Adaptive(5)) is own


@pytest.mark.parametrize(
    ("selection", "kind", "message"),
    [
        ("best", UnknownSelectionError, r"unknown strategy 'best'; expected one of adaptive, everything, random"),
        (3, TypeError, r"selection: expected a name or an optimizers\.Selection, found int"),
    ],
)
def test_an_unknown_strategy_is_refused_with_the_names_there_are(selection: Any, kind: type, message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        learn("a", unaided, selection=selection)
    assert isinstance(caught.value, OptimizerError | TypeError)


@dataclass(frozen=True)
class Solved:
    """A task's name and success rate."""

    name: str
    rate: float


SOLVED: list[Any] = [Solved("e", 0.9), Solved("a", 0.1), Solved("d", 0.5), Solved("b", 0.2), Solved("c", 0.3)]


@dataclass
class Progress:
    """A run as a strategy sees it."""

    entries: dict[str, Any] = field(default_factory=dict)
    iterations: list[Any] = field(default_factory=list)
    seed: int = 0

    def finish(self, cycle: int, *solved: str) -> None:
        self.iterations.append(SimpleNamespace(cycle=cycle, learned=bool(solved)))


def solved_before() -> Any:
    return Progress({solved.name: solved for solved in SOLVED})


def test_three_levels_are_called_by_letters_and_others_by_numbers() -> None:
    assert [Adaptive(3).level_label(j) for j in range(3)] == ["H", "HM", "HME"]
    assert [Adaptive(4).level_label(j) for j in range(4)] == ["1", "12", "123", "1234"]
    assert Adaptive(10).level_label(9).endswith("-9-10")


def test_candidates_are_the_sets_of_the_cycle_that_would_come_next() -> None:
    progress = solved_before()
    progress.finish(3)
    assert [demo_set.label for demo_set in Adaptive(2).candidates(progress)] == ["1_4", "12_4"]
    assert list(Adaptive(2).candidates(Progress())) == []  # type: ignore[arg-type]


def test_random_sets_have_the_sizes_of_the_levels_and_depend_on_the_seed_and_the_cycle_alone() -> None:
    def chosen(seed: int, cycle: int) -> list[str]:
        progress = solved_before()
        progress.seed = seed
        progress.finish(cycle)
        sets = RandomChoice().candidates(progress)
        assert [len(each.demos) for each in sets] == [2, 4, 5]
        return [str(demo_set.demos) for demo_set in sets]

    assert chosen(1, 1) == chosen(1, 1)
    assert len({str(chosen(seed, cycle)) for seed in (1, 2, 3) for cycle in (1, 2)}) == 6


def late(task: str, demos: tuple[str, ...], visit: int) -> int:
    """`a` is solved in the first pass, `b` in the third, `x` never."""
    return int(task == "a" or (task == "b" and visit == 2))


def test_resample_samples_what_is_unsolved_until_a_limit() -> None:
    """Nothing is shown, no two samples have one seed, and a limit of tokens ends it as one of iterations does."""
    assert list(islice(Resample().demo_sets(solved_before()), 3)) == [DemoSet("None")] * 3
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


# A strategy of one's own is all that a new selection takes: the run records its labels and shows what it chooses.


def solve_abc(task: str, demos: tuple[str, ...], visit: int) -> int:
    return {"a": 1, "b": 2, "c": 3}.get(task, 0)


class Newest:
    """Shows the entry that was earned last, then nothing more."""

    name = "newest"

    def demo_sets(self, progress: State) -> Iterator[DemoSet]:
        yield DemoSet("first pass")
        yield DemoSet("newest_7", list(progress.entries.values())[-1:], level=4, cycle=7)

    def candidates(self, progress: State) -> Sequence[DemoSet]:
        return [DemoSet("newest", list(progress.entries.values())[-1:])]


def test_the_record_has_the_labels_levels_and_cycles_of_the_strategy() -> None:
    heard = Heard()
    compiled = learn("abcx", solve_abc, selection=Newest(), observers=[heard])
    assert isinstance(Newest(), Selection)
    assert story(compiled) == ["first pass: - -> abc", "newest_7: c -> -"]
    assert [(it.level, it.cycle) for it in compiled.experience.iterations] == [(-1, 0), (4, 7)]
    assert [(event.label, event.cycle) for event in heard.started] == [("first pass", 0), ("newest_7", 7)]
    assert [demo.task for demo in compiled.solve.demos] == ["c"]
    assert compiled.experience.settings["selection"] == "newest"


def test_nothing_is_asked_of_a_strategy_once_every_task_is_solved() -> None:
    class Once(Newest):
        def demo_sets(self, progress: State) -> Iterator[DemoSet]:
            yield DemoSet("only")
            raise AssertionError("asked again")

    assert learn("abc", solve_abc, selection=Once()).experience.stopped == "solved"


class PerTask(Newest):
    """Shows every task the entries whose names its own name has, hardest first."""

    budgets: list[int | None]

    def __init__(self) -> None:
        self.budgets = []

    def demo_sets(self, progress: State) -> Iterator[DemoSet]:
        def select(task: TaskExample, token_budget: int | None) -> Sequence[Pick]:
            self.budgets.append(token_budget)
            return [Pick(entry) for entry in progress.entries.values() if entry.task_key[0] in task.key]

        yield DemoSet("None")
        yield DemoSet("own_1", select=select, level=0, cycle=1)


def test_a_strategy_may_show_every_task_demonstrations_of_its_own() -> None:
    def script(task: str, demos: tuple[str, ...], visit: int) -> int:
        return 4 if demos else solve_abc(task, demos, visit)

    heard, engine, names = Heard(), ScriptedEngine(script, 4), ["a", "b", "c", "xab", "xc", "x"]
    compiled = learn(names, script, engine=engine, selection=PerTask(), observers=[heard])
    shown = {task: demos for task, demos, _ in engine.drawn if task.startswith("x") and demos}
    assert shown == {"xab": ("a", "b"), "xc": ("c",)}
    assert compiled.experience.iterations[1].solved == ("xab", "xc")
    assert heard.started[1].demos == ("a", "b", "c"), "the union, hardest first"
    assert compiled.experience.unsolved == ("x",)


def test_a_strategy_per_task_gets_the_tokens_of_a_prompt_and_what_exceeds_them_is_left_out() -> None:
    selection = PerTask()
    names = [name * 600 for name in "abc"] + ["x" + "a" * 1200 + "b", "xc"]
    rates = {"a": 1, "b": 2, "c": 3}
    compiled = learn(
        names, lambda task, demos, visit: rates.get(task[0], 0), selection=selection, budget=Budget(context=1200)
    )
    assert selection.budgets == [1200, 1200]
    _, result = compiled.experience.iterations
    assert [key[0] for key in result.demos] == ["a", "c"] and [key[0] for key in result.left_out] == ["b"]


# β: levels are disjoint, hold all of D, keep ties together, and agree with the worked examples.


def rated(*counts: int) -> list[Solved]:
    return [Solved(str(name), count / 64) for name, count in enumerate(counts)]


def sizes(counts: list[int], granularity: int) -> list[int]:
    return [len(demos) for demos in cumulative(stratify(rated(*counts), granularity))]


@pytest.mark.parametrize(
    ("counts", "granularity", "expected"),
    [
        ([1, 1, 3, 20, 50], 3, [2, 4, 5]), ([2, 2, 2, 9], 3, [3, 3, 4]), ([], 3, []), ([5], 3, [1]),
        ([5, 7], 3, [1, 2]), ([7, 7, 7, 7], 3, [4, 4, 4]), ([1, 2, 3, 4, 5, 6, 7], 3, [3, 5, 7]),
        ([1, 2, 3, 4], 1, [4]), ([1, 2, 3, 4], 9, [1, 2, 3, 4]),
    ],
)  # fmt: skip
def test_sizes_of_the_cumulative(counts, granularity, expected):
    assert sizes(counts, granularity) == expected


def test_a_boundary_that_crosses_levels_makes_a_later_selection_smaller_though_the_experience_grew():
    assert (sizes([2, 2, 2, 9], 3)[0], sizes([2, 2, 2, 9, 1, 1], 3)[0]) == (3, 2)


@given(st.lists(st.integers(1, 64), max_size=40), st.integers(1, 6))
def test_levels_partition_the_experience(counts, granularity):
    entries = rated(*counts)
    levels = stratify(entries, granularity)
    assert len(levels) == min(granularity, len(entries))
    flat = [solved for level in levels for solved in level]
    assert flat == sorted(entries, key=lambda solved: solved.rate)
    for harder, easier in pairwise(levels):
        assert not harder or not easier or harder[-1].rate < easier[0].rate
    chosen = cumulative(levels)
    assert all(a == b[: len(a)] for a, b in pairwise(chosen))
    assert not entries or chosen[-1] == flat
