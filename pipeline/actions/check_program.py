"""One program for one task: its dataflow as a picture, and its pytest script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.actions.price_program import price_programs
from pipeline.base.errors import UsageError
from pipeline.charts.dataflow import draw
from pipeline.cli.cost_tables import cost_json, cost_table
from pipeline.cli.program_arguments import ProgramArguments, read_program
from pipeline.verification.task_files import load_task_named, scopes
from step_runtime.codegen import generate_test
from step_runtime.cost.chip import DEFAULT_CHIP
from step_runtime.tasks.task import Task
from step_runtime.verification.explain import explain


def load(arguments: ProgramArguments) -> tuple[Task, str]:
    """The task and the text of the program.

    Raises:
        UsageError: One of them can't be read.
    """
    task = load_task_named(arguments.task)
    return task, read_program(arguments, task)


def draw_program(name: str, text: str | None, path: str) -> None:
    """Writes a picture of a program's dataflow, as far as it can be read; errors are the verdict's.

    Without a text, the program is the task's own `impl`.

    Raises:
        UsageError: The task can't be read, or the graph can't be drawn.
    """
    task = load_task_named(name)
    program = task.impl if text is None else text
    if program is not None:
        draw(explain(program, scopes(task)[0]), Path(path))


def cost_of(task: Task, name: str, text: str) -> tuple[str, dict[str, Any]]:
    """What a program that passes costs on the default chip: as tables, and as JSON.

    Raises:
        UsageError: The task's code fails.
    """
    [subject] = price_programs(task, [(name, text)], DEFAULT_CHIP, {})
    if isinstance(subject.priced, tuple):
        raise UsageError(subject.priced[0].render(text, name))
    return cost_table(subject.priced, name, DEFAULT_CHIP.name), cost_json(subject.priced, name, DEFAULT_CHIP.name)


def pytest_script(arguments: ProgramArguments) -> str:
    """A self-contained pytest script that passes or fails as the verifier does.

    Raises:
        UsageError: The task or the program can't be read.
    """
    task, text = load(arguments)
    return generate_test(task, text, dtype=arguments.dtype, scopes=scopes(task))
