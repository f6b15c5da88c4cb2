"""Small runs for the tests of tracking, progress and the commands: three tasks, and an LM that answers by script."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import dspy
from dspy import lm15

from optimizers import AdaptiveFewShot, Attempt, Budget, Domain, Experience, Observer
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task
from tests.support.scripted_lm import respond

TASK = """
inputs: [{name: E0, dtype: fp32, dims: [M], data_gen: torch.rand}]
fns: [{name: Double, apply: "return [input[0] * 2]", input_dtype: fp32, output_dtype: fp32, func_name: fn}]
outputs: [{name: S0, dtype: fp32, dims: [M], data_transform: ["input_data['E0'] * 2"]}]
"""
RIGHT = "E1 = step.Map(fn=fn).apply((E0))\nreturn E1"


def tasks() -> list[Task]:
    """Three tasks, alike but for their names: the scripted LM solves `easy/0` alone, `hard/0` when shown another."""
    return [loads_task(TASK, name) for name in ("easy/0", "hard/0", "no/0")]


class Solver(dspy.Module):
    """The smallest student."""

    def __init__(self) -> None:
        super().__init__()
        self.proposer = dspy.Predict("name, task -> impl")

    def forward(self, name: str, task: Task) -> dspy.Prediction:
        return self.proposer(name=name, task=task)


class Engine:
    """Answers at once; `before` is called with the number of the request first."""

    def __init__(self, before: Callable[[int], None] = lambda number: None) -> None:
        self.before = before
        self._numbers = count(1)

    def complete(self, request: lm15.Request) -> lm15.Response:
        self.before(next(self._numbers))
        shown, task = len(request.messages) > 1, request.messages[-1].text or ""
        right = "easy/0" in task or ("hard/0" in task and shown)
        usage = lm15.Usage(input_tokens=100 * len(request.messages), output_tokens=10)
        return respond(request, f"[[ ## impl ## ]]\n{RIGHT if right else 'wrong'}\n\n[[ ## completed ## ]]", usage)


def is_right(example: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> bool:
    return bool(prediction.impl == RIGHT)


def learn(
    observers: Sequence[Observer],
    engine: Engine | None = None,
    budget: Budget | None = None,
    journal: Sequence[Attempt] = (),
) -> Experience:
    """A run of two samples at two temperatures: iteration 1 solves `easy/0`, 2 solves `hard/0`, 3 and 4 nothing."""
    examples = [dspy.Example(name=task.name, task=task).with_inputs("name", "task") for task in tasks()]
    optimizer = AdaptiveFewShot(
        is_right,
        num_samples=2,
        temperatures=(1.0, 0.4),
        threads=2,
        budget=budget,
        domain=Domain(task_key=lambda example: str(example.name)),
        observers=observers,
    )
    with dspy.context(lm=dspy.LM("scripted", engine=engine or Engine(), cache=False)):
        experience: Experience = optimizer.compile(Solver(), trainset=examples, resume=journal).experience
        return experience
