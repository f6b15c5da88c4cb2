"""What may replace the answer to a solved task: a cheaper one.

Invariants: without costs the first choice stays; with costs a task's answer never becomes dearer, and how often a task
is solved is counted in the iteration that solved it first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from optimizers.domain import Domain
from optimizers.experience import Entry
from optimizers.representative import rank
from optimizers.sampling import TaskExample


def better(domain: Domain, task: TaskExample, new: Entry, old: Entry | None) -> Entry:
    """The entry to keep: the old one, the new one, or the old one with the new one's cheaper answer."""
    if old is None:
        return new
    if rank(domain, task, new.outputs) >= rank(domain, task, old.outputs):
        return old
    return replace(
        old,
        outputs=new.outputs,
        calls=new.calls,
        cost=new.cost,
        answer_temperature=new.answer_temperature,
        answer_sample=new.answer_sample,
        answer_iteration=new.iteration,
    )


def known_costs(entries: Mapping[str, Entry], tasks: Iterable[str]) -> dict[str, float]:
    """What the answers to some tasks cost, where they have a cost."""
    found = {key: entries[key].cost for key in tasks if key in entries}
    return {key: cost for key, cost in found.items() if cost is not None}
