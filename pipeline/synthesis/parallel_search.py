"""Searches for many tasks in worker processes that may be killed, as authors' functions may hang."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from pipeline.synthesis.search_budget import Reason, SearchBudget, SearchOutcome
from pipeline.verification.pool import WorkerLost, WorkerPool
from pipeline.verification.worker import MEMORY

if TYPE_CHECKING:
    from step_runtime.tasks.task import Task

_GRACE = 20.0
"""Seconds beyond its budget after which a search is killed: for the task's compilation and the last verification."""
_REASONS: dict[str, Reason] = {"time-limit": "time", "memory-limit": "memory"}


def search_all(tasks: Sequence[Task], budget: SearchBudget, workers: int) -> Iterator[tuple[Task, SearchOutcome]]:
    """Yields the outcomes in the order of tasks; `workers` searches run at a time, and closing the iterator ends all.

    Raises:
        TaskError: A task's own code fails.
    """
    limit, start = budget.seconds + _GRACE, time.monotonic()
    with WorkerPool(workers, seconds=limit, memory=MEMORY, initializer=_settle, preload=[__name__]) as pool:
        try:
            found = [pool.submit(_search, task.name, task.statement, budget) for task in tasks]
            for task, future in zip(tasks, found, strict=True):
                yield task, _outcome(future, start)
        finally:
            pool.kill_workers()


def _outcome(future: Future[SearchOutcome], start: float) -> SearchOutcome:
    try:
        return future.result()
    except WorkerLost as error:
        return SearchOutcome(None, _REASONS.get(error.code, "crashed"), time.monotonic() - start)


def _search(name: str, content: str, budget: SearchBudget) -> SearchOutcome:
    """Runs in a worker."""
    from pipeline.synthesis.bidirectional_search import synthesize
    from step_runtime.tasks.reader import loads_task

    return synthesize(loads_task(content, name), budget)


def _settle() -> None:
    import torch

    torch.set_num_threads(1)
