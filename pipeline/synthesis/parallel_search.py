"""Searches for many tasks in workers that may be killed, as authors' functions may hang."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pipeline.synthesis.search_budget import Reason, RepairOutcome, SearchBudget, SearchOutcome
from pipeline.verification.pool import WorkerLost
from pipeline.verification.worker import MEMORY, task_of
from pipeline.verification.workers import PoolSettings, Workers
from step_runtime.base.errors import TaskError, describe_error

if TYPE_CHECKING:
    from step_runtime.tasks.task import Task

_GRACE = 20.0
"""Seconds beyond its budget after which a search is killed: for the task's compilation and the last verification."""
_REASONS: dict[str, Reason] = {"time-limit": "time", "memory-limit": "memory"}
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
    given = drafts or {}
    calls = [(task, (_search, task.name, task.statement, budget, list(given.get(task.name, ())))) for task in tasks]
    yield from _all(calls, budget.seconds, workers, SearchOutcome)


def repair_all(
    failures: Sequence[tuple[Task, Sequence[str]]], seconds: float, workers: Workers
) -> Iterator[tuple[Task, RepairOutcome]]:
    """As `search_all`, for repairs of each task's failed programs, the nearest first, within seconds each.

    Raises:
        TaskError: A task's own code fails.
    """
    calls = [(task, (_repair, task.name, task.statement, list(texts), seconds)) for task, texts in failures]
    yield from _all(calls, seconds, workers, RepairOutcome)


def _all(
    calls: Sequence[tuple[Task, tuple[Any, ...]]], seconds: float, workers: Workers, kind: type[Outcome]
) -> Iterator[tuple[Task, Outcome]]:
    """Outcomes of calls; a call that costs its worker, or that fails in this project's code, has one that says so."""
    limit, start = seconds + _GRACE, time.monotonic()
    with workers.pool(PoolSettings(limit, MEMORY, _settle, (__name__,), task_of), most=len(calls)) as pool:
        try:
            found = [(task, pool.submit(*call)) for task, call in calls]
            for task, future in found:
                try:
                    found_here = future.result()
                    if not isinstance(found_here, kind):
                        raise WorkerLost("crashed", "answered with something else than an outcome")
                    outcome: Outcome = found_here
                except WorkerLost as error:
                    outcome = kind(None, _REASONS.get(error.code, "crashed"), time.monotonic() - start)
                if outcome.error:
                    _LOG.error("%s: the search failed: %s", task.name, outcome.error)
                yield task, outcome
        finally:
            pool.kill_workers()


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
