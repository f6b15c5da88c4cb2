"""The answer that represents a task is sigma's choice among those that the domain confirms."""

from __future__ import annotations

import dspy

from optimizers import Attempt, Domain
from optimizers.representative import representative
from optimizers.sampling import TaskExample

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
