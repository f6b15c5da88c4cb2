"""Searches for many tasks in workers that may be killed, as authors' functions may hang."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pipeline.synthesis.search_budget import Reason, RepairOutcome, SearchBudget, SearchOutcome
from pipeline.verification.limits import MEMORY, files_of, task_of
from pipeline.verification.pool import WorkerLost
from pipeline.verification.workers import PoolSettings, Workers
from step_runtime.base.errors import TaskError, describe_error

if TYPE_CHECKING:
    from step_runtime.tasks.task import Task

_GRACE = 20.0
"""Seconds beyond its budget after which a search is killed: for the task's compilation and the last verification."""
_REASONS: dict[str, Reason] = {"time-limit": "time", "memory-limit": "memory", "killed": "killed"}
_LOG = logging.getLogger(__name__)

Outcome = TypeVar("Outcome", SearchOutcome, RepairOutcome)


def search_all(
    tasks: Sequence[Task], budget: SearchBudget, workers: Workers, drafts: Mapping[str, Sequence[str]] | None = None
) -> Iterator[tuple[Task, SearchOutcome]]:
    """Yields the outcomes in the order of tasks; each worker runs one search, and closing the iterator ends all.

    Args:
        tasks: The tasks.
        budget: Of each search.
        workers: Where searches run.
        drafts: Failed programs by the task's name, the nearest first, whose streams a search may use.

    Raises:
        TaskError: A task's own code fails.
    """
    calls = [_searching(task, budget, (drafts or {}).get(task.name, ())) for task in tasks]
    with _running(calls, workers) as (start, futures):
        for task, future in zip(tasks, futures, strict=True):
            yield task, _result(task, future, SearchOutcome, start)


def solve_all(
    searched: Sequence[Task],
    budget: SearchBudget,
    repaired: Sequence[Task],
    seconds: float,
    drafts: Mapping[str, Sequence[str]],
    workers: Workers,
) -> Iterator[tuple[Task, SearchOutcome | RepairOutcome]]:
    """Searches and repairs side by side, the searches first; yields outcomes as they come.

    What a task still waits for when it has a program is left out; a thorough search is not.

    Args:
        searched: The tasks to search.
        budget: Of each search.
        repaired: The tasks whose failed programs are to be repaired.
        seconds: The limit for the repairs of one task.
        drafts: Failed programs by the task's name, the nearest first.
        workers: Where both run.

    Raises:
        TaskError: A task's own code fails.
    """
    calls = [_searching(task, budget, drafts.get(task.name, ())) for task in searched]
    calls += [_repairing(task, drafts.get(task.name, ()), seconds) for task in repaired]
    with _running(calls, workers) as (start, futures):
        searches = dict(zip(futures[: len(searched)], searched, strict=True))
        repairs = dict(zip(futures[len(searched) :], repaired, strict=True))
        while searches or repairs:
            done, _ = wait([*searches, *repairs], return_when=FIRST_COMPLETED)
            for future in done:
                outcome: SearchOutcome | RepairOutcome
                if future in searches:
                    task = searches.pop(future)
                    outcome = _result(task, future, SearchOutcome, start)
                elif future in repairs:
                    task = repairs.pop(future)
                    outcome = _result(task, future, RepairOutcome, start)
                else:
                    continue
                yield task, outcome
                if outcome.impl is not None:
                    _leave_out(repairs, task)
                    if not budget.thorough:
                        _leave_out(searches, task)


class SearchPool:
    """Searches that are submitted one by one, in workers that stay; `run` has them do something else.

    Args:
        pool: Where they run.
    """

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._started: dict[Future[Any], tuple[Task, float]] = {}

    def search(self, task: Task, budget: SearchBudget, drafts: Sequence[str] = ()) -> Future[Any]:
        """Starts a search, whose outcome `outcome` gives when it has ended."""
        call = _searching(task, budget, drafts)
        future = self._pool.submit(call.function, *call.arguments)
        self._started[future] = task, time.monotonic()
        return future

    def outcome(self, future: Future[Any]) -> SearchOutcome:
        """The outcome of a search.

        Raises:
            TaskError: The task's own code fails.
        """
        task, start = self._started.pop(future)
        return _result(task, future, SearchOutcome, start)

    def run(self, function: Callable[..., Any], task: Task, *args: Any) -> Future[Any]:
        """Calls a module's function with a task's name and YAML, and with other arguments."""
        return self._pool.submit(function, task.name, task.statement, *args)


@contextmanager
def search_pool(workers: Workers, seconds: float, preload: Sequence[str] = ()) -> Iterator[SearchPool]:
    """A pool for searches of up to so many seconds each, which end with the context; workers find modules imported."""
    settings = PoolSettings(seconds + _GRACE, MEMORY, _settle, (__name__, *preload), task_of, files_of)
    with workers.pool(settings) as pool:
        try:
            yield SearchPool(pool)
        finally:
            pool.kill_workers()


def _leave_out(open_: dict[Future[Any], Task], solved: Task) -> None:
    """Cancels what a task still waits for; what runs already ends for nothing."""
    for future in [future for future, task in open_.items() if task.name == solved.name]:
        future.cancel()
        del open_[future]


@dataclass(frozen=True)
class _Call:
    """A function of this module with its arguments, and the seconds that it is given."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    seconds: float


def _searching(task: Task, budget: SearchBudget, drafts: Sequence[str]) -> _Call:
    return _Call(_search, (task.name, task.statement, budget, list(drafts)), budget.seconds)


def _repairing(task: Task, failures: Sequence[str], seconds: float) -> _Call:
    return _Call(_repair, (task.name, task.statement, list(failures), seconds), seconds)


@contextmanager
def _running(calls: Sequence[_Call], workers: Workers) -> Iterator[tuple[float, list[Future[Any]]]]:
    """When calls started, and their futures, which end with the context."""
    limit = max((call.seconds for call in calls), default=0.0) + _GRACE
    with workers.pool(PoolSettings(limit, MEMORY, _settle, (__name__,), task_of, files_of), most=len(calls)) as pool:
        try:
            yield time.monotonic(), [pool.submit(call.function, *call.arguments) for call in calls]
        finally:
            pool.kill_workers()


def _result(task: Task, future: Future[Any], kind: type[Outcome], start: float) -> Outcome:
    """The outcome of a call; if it cost its worker, or failed in this project's code, the outcome says so."""
    try:
        outcome = future.result()
        if not isinstance(outcome, kind):
            raise WorkerLost("crashed", "answered with something else than an outcome")
    except WorkerLost as error:
        outcome = kind(None, _REASONS.get(error.code, "crashed"), time.monotonic() - start)
    if outcome.error:
        _LOG.error("%s: the search failed: %s", task.name, outcome.error)
    return outcome


def _search(name: str, content: str, budget: SearchBudget, drafts: Sequence[str]) -> SearchOutcome:
    """Runs in a worker."""
    from pipeline.synthesis.bidirectional_search import synthesize

    return _outcome(name, content, SearchOutcome, lambda task: synthesize(task, budget, drafts))


def _repair(name: str, content: str, failures: Sequence[str], seconds: float) -> RepairOutcome:
    """Runs in a worker."""
    from pipeline.synthesis.repair_search import repair_failures

    return _outcome(name, content, RepairOutcome, lambda task: repair_failures(task, failures, seconds))


def _outcome(name: str, content: str, kind: type[Outcome], search: Callable[[Task], Outcome]) -> Outcome:
    """What a search of a task gives; an error of the search itself is an outcome, which says where it was raised.

    Raises:
        TaskError: The task's own code fails.
    """
    from step_runtime.tasks.reader import loads_task

    start = time.monotonic()
    try:
        return search(loads_task(content, name))
    except TaskError:
        raise
    except MemoryError:
        return kind(None, "memory", time.monotonic() - start)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        message = f"{describe_error(error)} ({Path(place.filename).name}:{place.lineno})"
        return kind(None, "internal", time.monotonic() - start, error=message)


def _settle() -> None:
    import torch

    torch.set_num_threads(1)
