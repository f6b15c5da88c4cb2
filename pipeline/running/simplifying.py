"""A run's solutions in simpler texts, for its record: each passes all that the answer passed."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import dspy

from optimizers import Entry
from optimizers.domain import HoldOut
from pipeline.rewriting.simplification import same_graph, simplified
from pipeline.verification.metric import Metric
from pipeline.verification.pricing import AnswerCost

logger = logging.getLogger(__name__)

MOST_THREADS = 32
"""Solutions that are simplified at a time, at most."""


def simplified_solutions(
    entries: Sequence[Entry], metric: Metric, cost: AnswerCost | None, hold_out: HoldOut | None, threads: int
) -> dict[str, str]:
    """Simpler texts of solved tasks' programs, by task; a task is absent if its program has no simpler text.

    None fails on held-out data if its answer passes, and none costs more than the answer if there is a `cost`. If a
    task's code or a worker fails, the sampled program is kept, with a warning. `threads` programs are simplified at a
    time; most of the time is spent waiting for verdicts.
    """
    ended = threading.Event()

    def simpler(entry: Entry) -> str:
        task, draft = entry.inputs["task"], str(entry.outputs["impl"])
        passes, example = metric.replaces(task, draft), dspy.Example(task=task)

        def price(text: str) -> float:
            found = cost(example, {"impl": text}) if cost else None
            return math.inf if found is None else found

        def accepted(text: str) -> bool:
            return not ended.is_set() and passes(text) and price(text) <= price(draft)

        try:
            return simplified(task, draft, accepted)
        except Exception as error:
            logger.warning("%s: the sampled solution is recorded: %s", entry.task_key, error)
            return draft

    pool = ThreadPoolExecutor(max(1, min(threads, MOST_THREADS)), thread_name_prefix="simplify")
    try:
        found = {entry.task_key: text for entry, text in zip(entries, pool.map(simpler, entries), strict=True)}
    finally:
        ended.set()  # after an interrupt, nothing more is verified
        pool.shutdown(cancel_futures=True)
    texts = {entry.task_key: text for entry in entries if (text := found[entry.task_key]) != entry.outputs["impl"]}
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
