"""Solved examples near a task: of the language, the user's folder and a compiled program; nothing of one is run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from optimizers.strategies import Weights
from pipeline.agent.agent import shipped_examples
from pipeline.base.errors import UsageError
from pipeline.base.files import DOCS
from pipeline.languages import registry
from pipeline.verification.shown_programs import Program, read_shown
from pipeline.verification.task_files import read_in
from step_runtime.base.errors import TaskError
from step_runtime.tasks.reader import read_task


def nearest(language: str | None, task: Any, examples: Iterable[Program]) -> list[tuple[float, Program]]:
    """The examples with their similarity to a task, the nearest first; those of the same task are left out.

    Similarity is the weighted Jaccard index of structures, from 0 to 1.
    """
    spoken = registry.find(language)
    others = [each for each in examples if each.task != task.without_impl()]
    query = spoken.structures(task, None)
    found = [spoken.structures(each.task, each.text) for each in others]
    weights = Weights(found)
    scored = [(weights.similarity(query, own), each) for each, own in zip(others, found, strict=True)]
    return sorted(scored, key=lambda pair: -pair[0])


@cache
def packaged(language: str | None) -> tuple[Program, ...]:
    """The language's own: of STeP the prompt's and the cookbook's, none of which is a task of the benchmark."""
    if language is not None:
        return tuple(read_shown(registry.find(language)).oracles)
    prompt = [Program(solved.task, f"prompt: {name}", solved.program) for name, solved in shipped_examples()]
    return (*prompt, *of_files(None, sorted((DOCS / "cookbook").glob("*.yaml")), "cookbook: "))


def of_files(language: str | None, paths: Iterable[Path], kind: str = "") -> Iterator[Program]:
    """The tasks in files that hold a program as `impl`; files that can't be read are left out."""
    for path in paths:
        try:
            task = read_task(path) if language is None else read_in(language, path)
        except (TaskError, UsageError):
            continue
        if task.impl is not None:
            yield Program(task.without_impl(), f"{kind}{path.stem}", task.impl)
