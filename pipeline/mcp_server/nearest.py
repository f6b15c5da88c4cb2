"""Solved examples near a task: of the base prompt, the cookbook, the user's folder and a compiled program.

Nothing of an example is run. The benchmark's reference programs are not among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from optimizers.strategies.coverage import Weights
from pipeline.agent.domain import structures
from pipeline.agent.proposer import shipped_examples
from pipeline.base.paths import DOCS
from signatures import render_task
from step_runtime.base.errors import TaskError
from step_runtime.tasks.reader import read_task
from step_runtime.tasks.task import SolvedTask, Task


@dataclass(frozen=True)
class Example:
    """A solved task.

    Attributes:
        source: Where it comes from.
        solved: The task and its program.
        similarity: To the task in question, from 0 to 1.
        path: The user's file that it comes from, whose program may be wrong; None for one that was verified before.
    """

    source: str
    solved: SolvedTask
    similarity: float = 0.0
    path: Path | None = None

    def text(self) -> str:
        """The example as prompts show it: the task as YAML, then the program."""
        head = f"# {self.source}, similarity {self.similarity:.2f}"
        return f"{head}\n{render_task(self.solved.task)}\nimpl: |\n{_indented(self.solved.program)}"


def nearest(task: Task, examples: Iterable[Example]) -> list[Example]:
    """The examples by their similarity to a task, the nearest first; those of the same task are left out.

    Similarity is the weighted Jaccard index of structures.
    """
    others = [each for each in examples if each.solved.task.without_impl() != task.without_impl()]
    query = structures({"task": task}, None)
    found = [structures({"task": each.solved.task}, {"impl": each.solved.program}) for each in others]
    weights = Weights(found)
    scored = [replace(each, similarity=weights.similarity(query, own)) for each, own in zip(others, found, strict=True)]
    return sorted(scored, key=lambda each: -each.similarity)


@cache
def packaged() -> tuple[Example, ...]:
    """The examples of the base prompt and of the cookbook."""
    prompt = [Example(f"prompt: {name}", solved) for name, solved in shipped_examples()]
    recipes = of_files(sorted((DOCS / "cookbook").glob("*.yaml")))
    return (*prompt, *(replace(each, source=f"cookbook: {each.source}", path=None) for each in recipes))


def of_files(paths: Iterable[Path]) -> Iterator[Example]:
    """The tasks in files that hold a program as `impl`; files that can't be read are left out."""
    for path in paths:
        try:
            task = read_task(path)
        except TaskError:
            continue
        if (solved := task.solved()) is not None:
            yield Example(path.stem, solved, path=path)


def _indented(program: str) -> str:
    return "\n".join(f"  {line}" for line in program.strip().splitlines())
