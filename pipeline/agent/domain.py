"""What the optimizers have to be told about STeP programs."""

from __future__ import annotations

from optimizers import Domain
from step_runtime.language.equivalence import canonical_key


def step_domain() -> Domain:
    """Answers mean the same by their syntax trees; the one with the least code wins; a task goes by its name.

    Demonstrations are tasks with their programs, whatever turns an agent took to write them.
    """
    return Domain(
        grouping_key=lambda outputs: canonical_key(outputs["impl"]),
        length=lambda outputs: code_length(outputs["impl"]),
        task_key=lambda example: str(example.task.name),
        traced_demos=False,
    )


def code_length(text: str) -> tuple[int, int]:
    """Lines of pure code, then their characters: comments, empty lines and spaces around don't count."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return sum(map(bool, lines)), sum(map(len, lines))
