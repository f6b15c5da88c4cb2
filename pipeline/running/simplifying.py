"""A run's solutions in simpler texts, for its record: each passes all that the answer passed."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dspy

from optimizers import Entry
from optimizers.held_out import HoldOut
from pipeline.languages.language import Task
from pipeline.rewriting.simplification import same_graph, simplified
from pipeline.verification.metric import Metric
from pipeline.verification.pricing import AnswerCost

logger = logging.getLogger(__name__)

MOST_THREADS = 32
"""Solutions that are simplified at a time, at most."""


def readable_solutions(
    entries: Sequence[Entry],
    passes: Callable[[Task, str], bool],
    cost: Callable[[Task, str], float | None] | None,
    threads: int,
    simplify: Callable[[Any, str, Any], str],
) -> dict[str, str]:
    """Simpler texts of solved tasks' programs, by task; a task is absent if its program has no simpler text.

    If a task's code or a worker fails, the sampled program is kept, with a warning. If a run has an objective, `cost`
    is that of a right program, and no text costs more than the answer. `threads` programs are simplified at a time;
    most of the time is spent waiting for verdicts.
    """
    ended = threading.Event()

    def accepts(task: Task, text: str) -> bool:
        return not ended.is_set() and passes(task, text)

    pool = ThreadPoolExecutor(max(1, min(threads, MOST_THREADS)), thread_name_prefix="simplify")
    try:
        texts = list(pool.map(lambda entry: _readable(simplify, entry, accepts, cost), entries))
    finally:
        ended.set()  # after an interrupt, nothing more is verified
        pool.shutdown(cancel_futures=True)
    return {entry.task_key: text for entry, text in zip(entries, texts, strict=True) if text != entry.outputs["impl"]}


def _readable(
    simplify: Callable[[Any, str, Any], str],
    entry: Entry,
    passes: Callable[[Task, str], bool],
    cost: Callable[[Task, str], float | None] | None,
) -> str:
    task, draft = entry.inputs["task"], str(entry.outputs["impl"])

    def accepted(text: str) -> bool:
        return passes(task, text) and (cost is None or _known(cost(task, text)) <= _known(cost(task, draft)))

    try:
        return simplify(task, draft, accepted)
    except Exception as error:
        logger.warning("%s: the sampled solution is recorded: %s", entry.task_key, error)
        return draft


def _known(cost: float | None) -> float:
    return math.inf if cost is None else cost


def simplified_solutions(
    entries: Sequence[Entry],
    metric: Metric,
    cost: AnswerCost | None,
    hold_out: HoldOut | None,
    threads: int,
) -> dict[str, str]:
    """The texts to record, as `readable_solutions` has them; none fails on held-out data if its answer passes."""
    drafts = {entry.task_key: str(entry.outputs["impl"]) for entry in entries}

    def passes(task: Task, text: str) -> bool:
        return metric.replaces(task, drafts[task.name])(text)

    def priced(task: Task, text: str) -> float | None:
        return cost(dspy.Example(task=task), {"impl": text}) if cost else None

    texts = readable_solutions(entries, passes, priced if cost else None, threads, simplified)
    return texts if hold_out is None else _unfallen(entries, texts, hold_out)


def _unfallen(entries: Sequence[Entry], texts: Mapping[str, str], hold_out: HoldOut) -> dict[str, str]:
    """The texts that pass on held-out data as their answers do. A verdict on an answer is one on all of its graph."""
    changed = [
        entry
        for entry in entries
        if entry.task_key in texts and entry.held_out is not None and entry.held_out.answer == "passed"
        if not same_graph(entry.inputs["task"], str(entry.outputs["impl"]), texts[entry.task_key])
    ]
    claims = [(dspy.Example(**entry.inputs), {"impl": texts[entry.task_key]}) for entry in changed]
    kept = dict(texts)
    for entry, verdict in zip(changed, hold_out((), claims), strict=True):
        if verdict is not None and verdict.answer != "passed":
            why = f"simpler, its verdict on held-out data is {verdict.answer}: {verdict.reason}"
            logger.warning("%s: the sampled solution is recorded: %s", entry.task_key, why)
            del kept[entry.task_key]
    return kept
