"""Searches for many tasks in workers that may be killed, as authors' functions may hang."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.synthesis.search_budget import Reason, SearchBudget, SearchOutcome
from pipeline.verification.limits import MEMORY, files_of, task_of
from pipeline.verification.pool import PoolSettings, WorkerLost, Workers
from step_runtime.base.errors import TaskError, describe_error

if TYPE_CHECKING:
    from step_runtime.tasks.task import Task

_GRACE = 20.0
"""Seconds beyond its budget after which a search is killed: for the task's compilation and the last verification."""
_REASONS: dict[str, Reason] = {"time-limit": "clock", "memory-limit": "memory", "killed": "killed"}
_LOG = logging.getLogger(__name__)


def search_all(tasks: Sequence[Task], budget: SearchBudget, workers: Workers) -> Iterator[tuple[Task, SearchOutcome]]:
    """Yields the outcomes in the order of tasks; each worker runs one search, and closing the iterator ends all.

    Args:
        tasks: The tasks.
        budget: Of each search.
        workers: Where searches run.

    Raises:
        TaskError: A task's own code fails.
    """
    settings = PoolSettings(budget.clock + _GRACE, MEMORY, _settle, (__name__,), task_of, files_of)
    with workers.pool(settings, most=len(tasks)) as workers_pool:
        pool = SearchPool(workers_pool)
        try:
            futures = [pool.search(task, budget) for task in tasks]
            for task, future in zip(tasks, futures, strict=True):
                yield task, pool.outcome(future)
        finally:
            workers_pool.kill_workers()


class SearchPool:
    """Searches that are submitted one by one, in workers that stay; `run` has them do something else.

    Args:
        pool: Where they run.
    """

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._started: dict[Future[Any], tuple[Task, float]] = {}

    def search(self, task: Task, budget: SearchBudget) -> Future[Any]:
        """Starts a search, whose outcome `outcome` gives when it has ended."""
        future = self._pool.submit(_search, task.name, task.statement, budget)
        self._started[future] = task, time.monotonic()
        return future

    def outcome(self, future: Future[Any]) -> SearchOutcome:
        """The outcome of a search.

        Raises:
            TaskError: The task's own code fails.
        """
        task, start = self._started.pop(future)
        return _result(task, future, start)

    def run(self, function: Callable[..., Any], task: Task, *args: Any) -> Future[Any]:
        """Calls a module's function with a task's name and YAML, and with other arguments."""
        return self.submit(function, task.name, task.statement, *args)

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Calls a module's function."""
        return self._pool.submit(function, *args)


@contextmanager
def search_pool(workers: Workers, seconds: float, preload: Sequence[str] = ()) -> Iterator[SearchPool]:
    """A pool for searches of up to so many seconds each, which end with the context; workers find modules imported."""
    settings = PoolSettings(seconds + _GRACE, MEMORY, _settle, (__name__, *preload), task_of, files_of)
    with workers.pool(settings) as pool:
        try:
            yield SearchPool(pool)
        finally:
            pool.kill_workers()


def _result(task: Task, future: Future[Any], start: float) -> SearchOutcome:
    """The outcome of a call; if it cost its worker, or failed in this project's code, the outcome says so."""
    try:
        outcome = future.result()
        if not isinstance(outcome, SearchOutcome):
            raise WorkerLost("crashed", "answered with something else than an outcome")
    except WorkerLost as error:
        outcome = SearchOutcome(None, _REASONS.get(error.code, "crashed"), time.monotonic() - start)
    if outcome.error:
        _LOG.error("%s: the search failed: %s", task.name, outcome.error)
    return outcome


def _search(name: str, content: str, budget: SearchBudget) -> SearchOutcome:
    """Searches in a worker; an error of the search itself is an outcome, which says where it was raised.

    Raises:
        TaskError: The task's own code fails.
    """
    from pipeline.synthesis.bidirectional_search import synthesize
    from step_runtime.tasks.reader import loads_task

    start = time.monotonic()
    try:
        return synthesize(loads_task(content, name), budget)
    except TaskError:
        raise
    except MemoryError:
        return SearchOutcome(None, "memory", time.monotonic() - start)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        message = f"{describe_error(error)} ({Path(place.filename).name}:{place.lineno})"
        return SearchOutcome(None, "internal", time.monotonic() - start, error=message)


def _settle() -> None:
    import torch

    torch.set_num_threads(1)
