"""A run's solutions judged once more: those that fall are marked, and shown no more, in this run and in later ones."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from optimizers import Budget, Domain, Experience, HeldOutVerdict, PerQuery, Quadrants
from optimizers.domain import Claims
from tests.support import scripted_program as scripted
from tests.support.scripted_program import by_task

TASKS = ("a", "b", "c")
FALLEN = HeldOutVerdict("failed", "wrong at M=7", {"sizes": ["M=7"]})
PASSED, UNKNOWN = HeldOutVerdict("passed"), HeldOutVerdict("unknown", "a limit of time")


class Judge:
    """Judges answers as told by task; `claims` are those that it was given."""

    def __init__(self, **verdicts: HeldOutVerdict | None) -> None:
        self.verdicts = verdicts
        self.claims: list[tuple[list[str], list[str]]] = []

    def __call__(self, solutions: Claims, refused: Claims) -> Sequence[HeldOutVerdict | None]:
        keys = [[example.task for example, _ in own] for own in (solutions, refused)]
        self.claims.append((keys[0], keys[1]))
        return [self.verdicts.get(key, PASSED) for own in keys for key in own]


RIGHT = {"a": 2, "b": 1, "c": 0}


def learn(judge: Judge, experience: Experience | None = None, budget: Budget | None = None) -> Any:
    """A run in which `a` and `b` are solved at once, and `c` never."""
    return scripted.learn(
        TASKS,
        lambda task, shown, visit: RIGHT[task],
        n=2,
        domain=Domain(task_key=by_task, hold_out=judge),
        budget=budget or Budget(iterations=2),
        threads=1,
        compiling={"experience": experience},
    )


def test_a_solution_that_falls_is_marked_and_not_shown() -> None:
    """It counts as solved, as the metric said so; the compiled program shows the other one."""
    judge = Judge(a=FALLEN, c=HeldOutVerdict("failed"))
    program = learn(judge)
    experience: Experience = program.experience
    assert judge.claims == [(["a", "b"], ["b", "c"])]
    assert experience.solved == ("a", "b") and experience.demos == ("b",)
    assert [entry.held_out for entry in experience.entries] == [FALLEN, PASSED]
    assert [demo.task for demo in program.solve.demos] == ["b"]


def test_the_quadrants_count_solutions_and_the_closest_refused_answers() -> None:
    """A solution that was not judged, and an answer of which nothing is known, are counted beside them."""
    experience: Experience = learn(Judge(a=FALLEN, b=PASSED, c=UNKNOWN)).experience
    assert experience.quadrants == Quadrants(both=1, run_only=1, gate_only=1, neither=0, unknown=1, unjudged=0)
    assert Quadrants.of([PASSED, None], []) == Quadrants(1, 0, None, None, 0, 1)


def test_a_bounded_number_of_refused_answers_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the first tasks, so that an equal run judges the same."""
    monkeypatch.setattr("optimizers.run.MOST_REFUSED", 1)
    judge = Judge()
    assert [*learn(judge).experience.refused] == ["b"]
    assert judge.claims == [(["a", "b"], ["b"])]


def test_the_record_keeps_the_verdicts(tmp_path: Path) -> None:
    """As JSON."""
    experience: Experience = learn(Judge(a=FALLEN)).experience
    experience.dump(tmp_path / "experience.json", attempts=False)
    read = Experience.load(tmp_path / "experience.json")
    assert [entry.fallen for entry in read.entries] == [True, False]
    assert (read.quadrants, read.refused) == (experience.quadrants, experience.refused)


def test_a_later_run_neither_shows_nor_keeps_what_fell() -> None:
    """The task is tried again; what passed is not judged again."""
    experience: Experience = learn(Judge(a=FALLEN)).experience
    judge = Judge()
    later: Experience = learn(judge, experience).experience
    assert later.iterations[0].demos == ("b",) and later.iterations[0].solved == ("a",)
    assert judge.claims[0][0] == ["a"]


def test_a_query_is_not_shown_what_fell() -> None:
    """The demonstrations that suit it are chosen among the others."""
    program = learn(Judge(a=FALLEN))
    chosen = PerQuery(program, domain=Domain(demo_predictors=("solve",))).choose(task="a")
    assert [entry.task_key for entry in chosen] == ["b"]


@pytest.mark.parametrize("iterations", [1, 9])
def test_a_run_is_judged_at_its_budget_as_at_its_end(iterations: int) -> None:
    """Once each."""
    judge = Judge()
    learn(judge, budget=Budget(iterations=iterations))
    assert len(judge.claims) == 1
