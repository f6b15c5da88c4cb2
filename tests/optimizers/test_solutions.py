"""The entries of a run's tasks, extended iteration by iteration."""

import re
from collections.abc import Mapping
from typing import Any

import dspy
import pytest

from optimizers import Attempt, Budget, Domain, Entry, Experience, TokenCount
from optimizers.experience import TaskCount
from optimizers.sampling import TaskExample
from optimizers.solutions import Solutions, representative
from tests.support.scripted_program import ScriptedEngine, answer, by_task, learn

TASKS = {name: TaskExample(index, name, dspy.Example(q=name).with_inputs("q")) for index, name in enumerate("abc")}


def attempt(task: str, answer: str, sample: int = 0) -> Attempt:
    return Attempt(0, TASKS[task].index, task, 0.7, sample, 1.0, passed=True, outputs={"answer": answer})


def solutions(entries: dict[str, Entry] | None = None, domain: Domain | None = None) -> Solutions:
    made = Solutions(domain or Domain(grouping_key=lambda outputs: outputs["answer"]), 0, TASKS, entries or {})
    for task in TASKS.values():
        made.spend(task, TokenCount(prompt=10))
    return made


def test_an_entry_says_how_often_its_task_was_solved_and_what_that_cost() -> None:
    """Tokens are those of all iterations until then."""
    made = solutions()
    made.spend(TASKS["b"], TokenCount(prompt=5))
    entry = made.choose(1, TASKS["b"], [attempt("b", "yes", 3)], TaskCount("b", 0.7, 1, 4))
    assert entry is not None
    assert (entry.task_key, entry.iteration, entry.successes, entry.samples) == ("b", 1, 1, 4)
    assert (entry.answer_sample, entry.tokens.prompt) == (3, 15)
    assert made.input_tokens == 35
    assert made.choose(1, TASKS["a"], [], TaskCount("a", 0.7, 0, 4)) is None


def test_entries_are_in_task_order_and_solved_tasks_leave_the_unsolved_ones() -> None:
    """Whatever the order of the iterations that solved them; another run's other tasks come first."""
    made = solutions()
    for index, name in enumerate("ca"):
        entry = made.choose(index, TASKS[name], [attempt(name, "yes")], TaskCount(name, 0.7, 1, 1))
        assert entry is not None
        assert made.extend({name: entry}) == ((name,), ())
    assert list(made.entries) == ["a", "c"]
    assert [task.key for task in made.unsolved] == ["b"]
    assert made.pass_at(1) == 2 / 3


def test_a_solved_task_keeps_its_entry_unless_a_cheaper_answer_comes() -> None:
    """An improved task is reported as such, and not as solved again."""
    made = solutions(domain=Domain(cost=lambda example, outputs: len(outputs["answer"])))
    reports = []
    for index, text in enumerate(("long", "longer", "no")):
        entry = made.choose(index, TASKS["a"], [attempt("a", text)], TaskCount("a", 0.7, 1, 1))
        assert entry is not None
        reports.append(made.extend({"a": entry}))
    assert reports == [(("a",), ()), ((), ()), ((), ("a",))]
    assert made.costs == {"a": 2}
    assert (made.entries["a"].iteration, made.entries["a"].answer_iteration) == (0, 2)


TASK = TaskExample(0, "a", dspy.Example(task="a").with_inputs("task"))
CORRECT = [
    Attempt(0, 0, "a", 0.7, number, number, outputs={"answer": text}, score=1.0, passed=True)
    for number, text in enumerate(["longest", "mid", "s"])
]


def test_the_shortest_answer_that_is_confirmed_represents_the_task() -> None:
    chosen = representative(Domain(), (0, 0), TASK, CORRECT)
    assert chosen is not None and chosen.outputs["answer"] == "s"
    picky = Domain(confirm=lambda example, outputs: outputs["answer"] != "s")
    second = representative(picky, (0, 0), TASK, CORRECT)
    assert second is not None and second.outputs["answer"] == "mid"
    assert representative(Domain(confirm=lambda example, outputs: False), (0, 0), TASK, CORRECT) is None


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
    assert solutions(entries).costs == {"a": 4.0}
    assert solutions().costs == {}
