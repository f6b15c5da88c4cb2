"""The optimizers' view of STeP programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import dspy

from optimizers import Domain
from pipeline.agent import features
from step_runtime.language.equivalence import canonical_key
from step_runtime.tasks.task import Task


def step_domain(confirm: Callable[[Any, str], bool] | None = None) -> Domain:
    """Answers are grouped by their syntax trees, the shortest is preferred, and tasks are keyed by name.

    Demonstrations are tasks with their programs, for any number of turns that the agent took to write them. Tasks are
    compared by their types, functions and references, programs by the primitives along their edges.

    `confirm` verifies a task's program by its own text, such as `Metric.confirm`; None: shared verdicts are trusted.
    """
    return Domain(
        confirm=None if confirm is None else lambda example, outputs: confirm(example.task, outputs["impl"]),
        grouping_key=lambda outputs: canonical_key(outputs["impl"]),
        length=lambda outputs: code_length(outputs["impl"]),
        task_key=lambda example: str(example.task.name),
        traced_demos=False,
        structures=features.structures,
        closeness=features.closeness,
    )


def examples(tasks: Iterable[Task]) -> list[dspy.Example]:
    """Tasks as an agent's inputs."""
    return [dspy.Example(task=task).with_inputs("task") for task in tasks]


def code_length(text: str) -> tuple[int, int]:
    """Lines of code and their characters, without comments, empty lines and surrounding spaces."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return sum(map(bool, lines)), sum(map(len, lines))
