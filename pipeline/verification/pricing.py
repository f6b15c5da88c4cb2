"""Costs of programs, found in a worker process, as a task's own code runs to count its operations."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, wait
from contextlib import contextmanager
from typing import Any

from pipeline.base.errors import print_message
from pipeline.verification.limits import verification_pool
from pipeline.verification.task_files import task_errors
from step_runtime.base.errors import Diagnostic
from step_runtime.base.units import Figure
from step_runtime.cost.chip import DEFAULT_CHIP, Chip
from step_runtime.rewriting.optimizing import Explored, explored
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task
from step_runtime.verification.task_costs import Priced, Rejected, TaskCosts

_LOG = logging.getLogger(__name__)

SECONDS = 60.0
"""Wall clock limit of one call, which may price hundreds of programs."""
_BETWEEN = 10.0
"""Seconds between two lines of progress."""


class Pricing:
    """Prices a task's programs on a chip, in worker processes, where the task's code runs.

    With a `name`, a command's, it says on stderr what takes long.
    """

    def __init__(self, task: Task, chip: Chip, workers: Executor, name: str = "") -> None:
        self._call = (task.name, task.statement, chip)
        self._workers, self._name = workers, name

    def price(self, text: str, changes: Mapping[str, int] | None = None) -> Priced | tuple[Diagnostic, ...]:
        """A program's cost at the task's first set of sizes with some changed, or why it has none."""
        found: Priced | tuple[Diagnostic, ...] = self._result(price, text, dict(changes or {}))
        return found

    def explored(self, text: str, objective: Figure, limit: int) -> Explored | tuple[Diagnostic, ...]:
        """The programs that rewrites of one lead to, the cheapest first, or why it has none.

        With the folds that rewrites leave alone, and the reason.
        """
        found: Explored | tuple[Diagnostic, ...] = self._result(rewrite, text, objective, limit)
        return found

    def _result(self, function: Callable[..., Any], *args: object) -> Any:
        start = time.monotonic()
        with task_errors(self._call[0]):
            future = self._workers.submit(function, *self._call, *args)
            while wait([future], timeout=_BETWEEN if self._name else None).not_done:
                spent = time.monotonic() - start
                print_message(self._name, f"{self._call[0]}: programs are being priced, {spent:.0f} s so far")
            return future.result()


@contextmanager
def pricing(task: Task, chip: Chip, name: str) -> Iterator[Pricing]:
    """Prices programs of a task in a process of its own, for a command of a name."""
    with verification_pool(1, seconds=SECONDS) as workers:
        yield Pricing(task, chip, workers, name)


AnswerCost = Callable[[Any, Mapping[str, Any]], float | None]
"""What a right answer to an example costs, by their fields; None if its cost can't be found."""


def answer_cost(executor: Executor, figure: Figure) -> AnswerCost:
    """The cost of a right answer by one figure on the default chip; None if it can't be found.

    Every program is priced once, by the executor. Safe to call from any number of threads.
    """
    known: dict[tuple[str, str], float | None] = {}

    def cost(example: Any, outputs: Mapping[str, Any]) -> float | None:
        task, text = example.task, str(outputs["impl"])
        key = (task.statement, text)
        if key not in known:
            try:
                known[key] = executor.submit(figure_of, task.name, task.statement, text, figure).result()
            except Exception as error:
                _LOG.warning("%s: the cost of an answer can't be found: %s", task.name, error)
                known[key] = None
        return known[key]

    return cost


def task_bounds(executor: Executor, tasks: Sequence[Any], figure: Figure) -> dict[str, float]:
    """The least cost of any program of each task by one figure, if there is such a bound."""
    found = {}
    for task in tasks:
        try:
            bound = executor.submit(bound_of, task.name, task.statement, figure).result()
        except Exception as error:
            _LOG.warning("%s: its costs have no bound: %s", task.name, error)
            continue
        if bound is not None:
            found[task.name] = bound
    return found


# --- what runs in a worker --------------------------------------------------------------------------------------------


def price(
    name: str, content: str, chip: Chip, text: str, changes: Mapping[str, int]
) -> Priced | tuple[Diagnostic, ...]:
    """The cost of a program text, for a task given by its name and its YAML, or the findings of its check.

    Raises:
        TaskError: The task cannot be used, or not at these sizes.
    """
    costs = _costs(name, content, chip.model_dump_json())
    try:
        return costs.price(text, costs.sizes(changes))
    except Rejected as rejected:
        return rejected.diagnostics


def rewrite(
    name: str, content: str, chip: Chip, text: str, objective: Figure, limit: int
) -> Explored | tuple[Diagnostic, ...]:
    """The programs that rewrites of a program lead to, or the findings of its check."""
    try:
        return explored(_costs(name, content, chip.model_dump_json()), text, objective, limit)
    except Rejected as rejected:
        return rejected.diagnostics


def figure_of(name: str, content: str, text: str, figure: Figure) -> float | None:
    """One figure of a program's cost on the default chip; None for a program that fails a check."""
    priced = price(name, content, DEFAULT_CHIP, text, {})
    return None if isinstance(priced, tuple) else priced.cost.figure(figure)


def bound_of(name: str, content: str, figure: Figure) -> float | None:
    """The least cost of any program of a task by one figure on the default chip; None without a bound."""
    bound: float | None = getattr(_costs(name, content, DEFAULT_CHIP.model_dump_json()).bound(), figure, None)
    return bound


@functools.lru_cache(maxsize=64)
def _costs(name: str, content: str, chip: str) -> TaskCosts:
    return TaskCosts(loads_task(content, name), Chip.model_validate_json(chip))
