"""The solutions of a run as a person reads them: simplified, with types as comments, each verified again."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from optimizers import Entry
from pipeline.rewriting.simplification import simplified
from step_runtime.tasks.task import Task

logger = logging.getLogger(__name__)

MOST_THREADS = 32
"""Solutions that are simplified at a time, at most."""


def readable_solutions(
    entries: Sequence[Entry],
    passes: Callable[[Task, str], bool],
    cost: Callable[[Task, str], float | None] | None,
    threads: int,
) -> dict[str, str]:
    """Simpler texts of solved tasks' programs, by task; a task is absent if its program stays as it was sampled.

    Where a task's code or a worker fails, the program stays, with a warning. Where a run has an objective, `cost` is
    that of a right program, and no text costs more than the answer. `threads` programs are simplified at a time; most
    of the time is spent waiting for verdicts.
    """
    ended = threading.Event()

    def accepts(task: Task, text: str) -> bool:
        return not ended.is_set() and passes(task, text)

    pool = ThreadPoolExecutor(max(1, min(threads, MOST_THREADS)), thread_name_prefix="simplify")
    try:
        texts = list(pool.map(lambda entry: _readable(entry, accepts, cost), entries))
    finally:
        ended.set()  # after an interrupt, nothing more is verified
        pool.shutdown(cancel_futures=True)
    return {entry.task_key: text for entry, text in zip(entries, texts, strict=True) if text != entry.outputs["impl"]}


def _readable(
    entry: Entry, passes: Callable[[Task, str], bool], cost: Callable[[Task, str], float | None] | None
) -> str:
    task, draft = entry.inputs["task"], str(entry.outputs["impl"])

    def accepted(text: str) -> bool:
        return passes(task, text) and (cost is None or _known(cost(task, text)) <= _known(cost(task, draft)))

    try:
        return simplified(task, draft, accepted)
    except Exception as error:
        logger.warning("%s: the solution is recorded as it was sampled: %s", entry.task_key, error)
        return draft


def _known(cost: float | None) -> float:
    return math.inf if cost is None else cost
