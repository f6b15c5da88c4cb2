"""The entries of a run's tasks, extended iteration by iteration."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import dspy
import pytest

from optimizers import Budget, Domain, Experience
from tests.support.scripted_program import ScriptedEngine, answer, by_task, learn


def test_an_entry_says_how_often_its_task_was_solved_and_what_that_cost() -> None:
    """At its best temperature and at all together; tokens are those of all iterations until then."""

    def late(task: str, demos: tuple[str, ...], visit: int) -> int:
        return 2 if task == "a" or demos else 0

    engine = ScriptedEngine(late, 4)
    experience: Experience = learn("ab", late, engine=engine, temperatures=(0.4, 1.0)).experience
    first, second = experience.entries
    assert [(each.task_key, each.iteration, each.successes, each.samples) for each in (first, second)] == [
        ("a", 0, 2, 4), ("b", 1, 2, 4),
    ]  # fmt: skip
    assert (second.pooled_successes, second.pooled_samples) == (4, 8)
    spent = sum(attempt.tokens["solve"].total for attempt in experience.attempts if attempt.task_key == "b")
    assert second.tokens.total == spent


def test_entries_are_in_task_order_and_another_run_s_other_tasks_come_first() -> None:
    """Whatever the order of the iterations that solved them."""
    earlier = learn("xc", lambda *_: 4).experience
    rates = {"a": lambda demos: 4 if len(demos) > 2 else 0, "b": lambda demos: 4}
    compiled = learn(
        "abc", lambda task, demos, visit: rates[task](demos) if task in rates else 4, granularity=1,
        compiling={"experience": replace(earlier, carried=False)},
    )  # fmt: skip
    assert [entry.task_key for entry in compiled.experience.entries] == ["x", "a", "b", "c"]
    assert [result.solved for result in compiled.experience.iterations] == [("b",), ("a",)]


pytestmark = pytest.mark.usefixtures("no_waiting")


def price(example: dspy.Example, outputs: Mapping[str, Any]) -> float | None:
    """The number in an answer such as `right a 7`; an answer without one has no cost."""
    found = re.search(r"\d+", str(outputs["answer"]))
    return float(found[0]) if found else None


def is_right(example: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> bool:
    return str(prediction.answer).startswith(f"right {example.task}")


class Pricing(ScriptedEngine):
    """Gives right answers of these costs, one after another."""

    def __init__(self, *costs: str) -> None:
        self.left = list(costs)
        super().__init__(lambda task, demos, visit: 99, 2, self.said)

    def said(self, request: Any, task: str, right: bool) -> str:
        with self.lock:
            return answer(f"right {task} {self.left.pop(0) if len(self.left) > 1 else self.left[0]}")


def run(engine: ScriptedEngine, iterations: int | None = 3, **options: Any) -> Experience:
    domain = Domain(task_key=by_task, cost=price, grouping_key=lambda outputs: outputs["answer"])
    settings = {"domain": domain, "budget": Budget(iterations=iterations), "metric": is_right, "threads": 1, **options}
    return learn("a", lambda task, demos, visit: 99, n=2, engine=engine, **settings).experience


def answers(experience: Experience) -> list[str]:
    return [str(entry.outputs["answer"]) for entry in experience.entries]


def test_the_cheapest_answer_of_an_iteration_is_chosen() -> None:
    """And not the shortest, nor the first; one without a cost comes last."""
    assert answers(run(Pricing("30", "4"), 1)) == ["right a 4"]
    assert answers(run(Pricing("", "1000"), 1)) == ["right a 1000"]
    assert run(Pricing("30", "4"), 1).costs == {"a": 4.0}


def test_a_solved_task_is_sampled_until_the_budget_and_keeps_its_cheapest_answer() -> None:
    """Counts stay those of the iteration that solved it; the record says what each iteration found."""
    experience = run(Pricing("30", "40", "9", "50", "60", "70"))
    assert [(result.solved, result.improved) for result in experience.iterations] == [
        (("a",), ()), ((), ("a",)), ((), ())
    ]  # fmt: skip
    assert [result.costs for result in experience.iterations] == [{"a": 30.0}, {"a": 9.0}, {"a": 9.0}]
    [entry] = experience.entries
    assert (entry.outputs["answer"], entry.cost, entry.iteration, entry.answer_iteration) == ("right a 9", 9.0, 0, 1)
    assert (entry.successes, experience.stopped) == (2, "budget")
    assert Experience.from_dict(experience.to_dict()).entries == experience.entries


def test_a_cheaper_answer_is_a_demonstration_from_then_on() -> None:
    engine = Pricing("30", "40", "9", "50", "60", "70")
    run(engine)
    shown = ["\n".join(message.text or "" for message in request.messages) for request in engine.requests]
    assert ["right a 30" in text for text in shown] == [False, False, True, True, False, False]
    assert ["right a 9" in text for text in shown] == [False, False, False, False, True, True]


def test_without_a_budget_a_run_ends_when_nothing_gets_cheaper() -> None:
    """Once the strategy has shown all levels in vain."""
    experience = run(Pricing("30", "40", "9", "50", "60"), None)
    assert answers(experience) == ["right a 9"]
    assert experience.stopped == "solved"


def test_without_costs_a_solved_task_is_left_alone() -> None:
    experience = run(Pricing("30", "4"), domain=Domain(task_key=by_task))
    assert len(experience.iterations) == 1 and experience.costs == {}
