"""The entries of a run's tasks, extended iteration by iteration."""

from __future__ import annotations

import dspy

from optimizers import Attempt, Domain, Entry, TokenCount
from optimizers.experience import TaskCount
from optimizers.sampling import TaskExample
from optimizers.solutions import Solutions

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
    for index, answer in enumerate(("long", "longer", "no")):
        entry = made.choose(index, TASKS["a"], [attempt("a", answer)], TaskCount("a", 0.7, 1, 1))
        assert entry is not None
        reports.append(made.extend({"a": entry}))
    assert reports == [(("a",), ()), ((), ()), ((), ("a",))]
    assert made.costs == {"a": 2}
    assert (made.entries["a"].iteration, made.entries["a"].answer_iteration) == (0, 2)
