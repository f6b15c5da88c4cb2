"""The cheapest right answer represents a task: at first, and when a later one is cheaper."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import dspy
import pytest

from optimizers import Budget, Domain, Experience
from optimizers.preference import known_costs
from tests.support.scripted_program import ScriptedEngine, answer, by_task, learn

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


def test_costs_of_some_tasks() -> None:
    experience = run(Pricing("30", "4"), 1)
    entries = {entry.task_key: entry for entry in experience.entries}
    assert known_costs(entries, ["a", "b"]) == {"a": 4.0}
    assert known_costs(entries, ["b"]) == {}
