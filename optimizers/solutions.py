"""The function sigma (paper, Section 3.1): which right answer represents a solved task.

Invariants: the choice is one of the candidates; the same candidates, keys, lengths and random state give the same
choice; how often an answer is sampled affects only which answer represents its group, not which group wins.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from optimizers.attempt import Attempt, TaskExample
from optimizers.domain import Division, Domain, Outputs
from optimizers.experience import Entry, TaskCount
from optimizers.ledger import TokenCount
from optimizers.requests import derive_seed

logger = logging.getLogger(__name__)
T = TypeVar("T")

MOST_REFUSED = 32
"""Answers that were refused that are judged once more at a run's end: a fixed number, so that a run can be repeated."""


def choose_answer(
    candidates: Sequence[T],
    key: Callable[[T], Hashable],
    length: Callable[[T], Any],
    rng: random.Random,
) -> T:
    """One answer at random from each group of `key`; the shortest of these; among equals the first sampled.

    Args:
        candidates: Correct answers to one task, in the order of sampling; at least one.
        key: Equal for answers that mean the same; a candidate with the key None forms its own group.
        length: The length of a candidate, compared by `<`.
        rng: Chooses the representatives.
    """
    groups: dict[Hashable, list[int]] = {}
    for index, candidate in enumerate(candidates):
        name = key(candidate)
        groups.setdefault(("alone", index) if name is None else ("group", name), []).append(index)
    chosen = [rng.choice(group) for group in groups.values()]
    return candidates[min(chosen, key=lambda index: (length(candidates[index]), index))]


def representative(
    domain: Domain, place: tuple[int, int], task: TaskExample, correct: Sequence[Attempt]
) -> Attempt | None:
    """The right answer that sigma chooses, of those that the domain confirms.

    `place` is the run's seed and the iteration.
    """
    candidates = list(correct)
    while candidates:
        answer = choose_answer(
            candidates,
            lambda each: domain.grouping_key(each.outputs),
            lambda each: rank(domain, task, each.outputs),
            random.Random(derive_seed("sigma", *place, task.key)),
        )
        if domain.confirm is None or domain.confirm(task.example, answer.outputs):
            return answer
        logger.warning("%s: an answer that had passed does not pass alone; another answer is chosen", task.key)
        candidates.remove(answer)
    return None


def rank(domain: Domain, task: TaskExample, outputs: Outputs) -> tuple[float, Any]:
    """The order of right answers, lower is better: the cost, if the domain has any, then the length."""
    cost = 0.0 if domain.cost is None else domain.cost(task.example, outputs)
    return math.inf if cost is None else cost, domain.length(outputs)


def choose(
    domain: Domain,
    place: tuple[int, int],
    task: TaskExample,
    correct: Sequence[Attempt],
    best: TaskCount,
    pooled: tuple[int, int],
    spent: TokenCount,
    known: Entry | None,
) -> Entry | None:
    """The task's entry after an iteration: sigma of its correct attempts, or the one that it has if it is better.

    Args:
        domain: What is preferred.
        place: The run's seed and the iteration.
        task: The task.
        correct: Its correct attempts in the iteration, in order; None is the result if there are none.
        best: The count at the temperature where most of its attempts were correct.
        pooled: Correct and scored attempts at all temperatures together.
        spent: Tokens spent on the task so far.
        known: The entry that it has.
    """
    answer = representative(domain, place, task, correct)
    if answer is None:
        return None
    new = Entry(
        task_key=task.key,
        inputs=dict(task.example.inputs().items()),
        outputs=answer.outputs,
        successes=best.successes,
        samples=best.samples,
        temperature=best.temperature,
        iteration=place[1],
        answer_temperature=answer.temperature,
        answer_sample=answer.sample,
        tokens=spent,
        calls=answer.calls,
        cost=None if domain.cost is None else domain.cost(task.example, answer.outputs),
        pooled_successes=pooled[0],
        pooled_samples=pooled[1],
    )
    if known is None or rank(domain, task, new.outputs) >= rank(domain, task, known.outputs):
        best = known or new
    elif known.composed_from:
        best = new
    else:
        best = replace(
            known,
            outputs=new.outputs,
            calls=new.calls,
            cost=new.cost,
            answer_temperature=new.answer_temperature,
            answer_sample=new.answer_sample,
            answer_iteration=new.iteration,
            held_out=new.held_out,
        )
    return _with_dearest(domain, task, best, [each.outputs for each in (*correct, *([known] if known else ()))])


def _with_dearest(domain: Domain, task: TaskExample, entry: Entry, right: Sequence[Outputs]) -> Entry:
    if domain.cost is None or entry.cost is None:
        return entry
    cost, dearest = max(((domain.cost(task.example, each) or 0.0, each) for each in right), key=lambda pair: pair[0])
    known = entry.cost if entry.dearer is None else entry.dearer[0]
    return replace(entry, dearer=(cost, dearest)) if cost > known else entry


def composed(
    domain: Domain, index: int, task: TaskExample, found: Division, entries: Mapping[str, Entry], spent: TokenCount
) -> Entry:
    """The entry of a task whose answer is composed of those of sub-tasks, with the counts of the hardest."""
    hardest, answer = min((entries[key] for key in found.origins), key=lambda entry: entry.rate), found.answer or {}
    return replace(
        hardest, task_key=task.key, inputs=dict(task.example.inputs().items()), outputs=answer, calls={},
        iteration=index, tokens=spent, cost=None if domain.cost is None else domain.cost(task.example, answer),
        answer_iteration=None, held_out=None, composed_from=tuple(found.origins),
    )  # fmt: skip
