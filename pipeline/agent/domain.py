"""The optimizers' view of STeP programs."""

from __future__ import annotations

from optimizers import Domain
from step_runtime.language.equivalence import canonical_key


def step_domain() -> Domain:
    """Answers are grouped by their syntax trees, the shortest is preferred, and tasks are keyed by name.

    Demonstrations are tasks with their programs, however many turns the agent took to write them.
    """
    return Domain(
        grouping_key=lambda outputs: canonical_key(outputs["impl"]),
        length=lambda outputs: code_length(outputs["impl"]),
        task_key=lambda example: str(example.task.name),
        traced_demos=False,
    )


def code_length(text: str) -> tuple[int, int]:
    """Lines of code and their characters, without comments, empty lines and surrounding spaces."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return sum(map(bool, lines)), sum(map(len, lines))
