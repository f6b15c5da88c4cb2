"""The solved tasks of a run, D in Algorithm 1, and the tokens spent on every task.

Invariants: entries are in task order; a task that has an entry keeps one; with costs its answer never becomes dearer.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from optimizers.attempt import Attempt
from optimizers.call_seeds import derive_seed
from optimizers.context_fit import Refusal
from optimizers.domain import Domain, Outputs
from optimizers.experience import Entry, TaskCount, in_task_order, mean_pass_at
from optimizers.filtering import choose_answer
from optimizers.held_out import MOST_REFUSED, HeldOutVerdict
from optimizers.iteration_counts import IterationCounts
from optimizers.ledger import TokenCount
from optimizers.sampling import TaskExample

logger = logging.getLogger(__name__)


def better(domain: Domain, task: TaskExample, new: Entry, old: Entry | None) -> Entry:
    """The entry to keep: the old one, the new one, or the old one with the new one's cheaper answer."""
    if old is None:
        return new
    if rank(domain, task, new.outputs) >= rank(domain, task, old.outputs):
        return old
    if old.composed_from:
        return new
    return replace(
        old,
        outputs=new.outputs,
        calls=new.calls,
        cost=new.cost,
        answer_temperature=new.answer_temperature,
        answer_sample=new.answer_sample,
        answer_iteration=new.iteration,
        held_out=new.held_out,
    )


def representative(
    domain: Domain, place: tuple[int, int], task: TaskExample, correct: Sequence[Attempt]
) -> Attempt | None:
    """The right answer that sigma chooses, of those that the domain confirms.

    `place` is the run's seed and the iteration.
    """
    candidates = list(correct)
    while candidates:
        rng = random.Random(derive_seed("sigma", *place, task.key))
        answer = choose_answer(
            candidates,
            lambda each: domain.grouping_key(each.outputs),
            lambda each: rank(domain, task, each.outputs),
            rng,
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


class Solutions:
    """The entries of a run's tasks, D, by key; at first those of an earlier run.

    Attributes:
        refused: By task, the held-out verdict on the closest wrong answer.
    """

    def __init__(
        self, domain: Domain, seed: int, tasks: Mapping[str, TaskExample], entries: Mapping[str, Entry]
    ) -> None:
        self.entries = dict(entries)
        self.refused: Mapping[str, HeldOutVerdict] = {}
        self._domain, self._seed, self._tasks = domain, seed, tasks
        self._spent: dict[str, TokenCount] = {}

    @property
    def unsolved(self) -> list[TaskExample]:
        """The tasks without an entry, in task order."""
        return [task for key, task in self._tasks.items() if key not in self.entries]

    @property
    def solved(self) -> int:
        """The tasks that the LM solved."""
        return sum(key in self.entries and self.entries[key].teacher is None for key in self._tasks)

    @property
    def shown(self) -> dict[str, Entry]:
        """The entries that may be demonstrations: those that have not fallen."""
        return {key: entry for key, entry in self.entries.items() if not entry.fallen}

    @property
    def costs(self) -> dict[str, float]:
        """The costs of the answers, if they have costs."""
        found = {key: self.entries[key].cost for key in self._tasks if key in self.entries}
        return {key: cost for key, cost in found.items() if cost is not None}

    @property
    def input_tokens(self) -> int:
        """Prompt tokens spent on all tasks."""
        return sum(count.input for count in self._spent.values())

    def pass_at(self, k: int | None, *, pooled: bool = False) -> float:
        """The mean pass@k of all tasks; None stands for the number of samples; `pooled` as for `mean_pass_at`."""
        return mean_pass_at(self.entries.values(), self._tasks, k, pooled=pooled)

    def by_task(
        self, sampled: Iterable[Attempt], tasks: Sequence[TaskExample], counts: IterationCounts
    ) -> Iterator[tuple[TaskExample, list[Attempt], list[Refusal]]]:
        """Adds an iteration's tokens to its tasks; yields each task's right attempts, and which of its were refused."""
        for task in tasks:
            self.spend(task, counts.spent(task.index))
        by_index = {task.index: task for task in tasks}
        for number, own in groupby(sampled, key=lambda attempt: attempt.task):
            correct, refusals = list[Attempt](), list[Refusal]()
            for attempt in own:  # of which most are wrong, and not kept in memory
                refusals.append(Refusal.of(attempt))
                if attempt.passed:
                    correct.append(attempt)
            yield by_index[number], correct, refusals

    def spend(self, task: TaskExample, tokens: TokenCount) -> None:
        """Adds the tokens that an iteration spent on a task."""
        self._spent[task.key] = self._spent.get(task.key, TokenCount()) + tokens

    def choose(
        self,
        index: int,
        task: TaskExample,
        correct: Sequence[Attempt],
        best: TaskCount,
        pooled: tuple[int, int] | None = None,
    ) -> Entry | None:
        """The task's entry after an iteration: sigma of its correct attempts, or the one that it has if it is better.

        `best` is the task's count at the temperature where most attempts were correct; `pooled` are its correct and
        scored samples at all temperatures.

        Returns:
            None if no attempt is correct.
        """
        answer = representative(self._domain, (self._seed, index), task, correct)
        if answer is None:
            return None
        entry = Entry(
            task_key=task.key,
            inputs=dict(task.example.inputs().items()),
            outputs=answer.outputs,
            successes=best.successes,
            samples=best.samples,
            temperature=best.temperature,
            iteration=index,
            answer_temperature=answer.temperature,
            answer_sample=answer.sample,
            tokens=self._spent[task.key],
            calls=answer.calls,
            cost=None if self._domain.cost is None else self._domain.cost(task.example, answer.outputs),
            pooled_successes=pooled and pooled[0],
            pooled_samples=pooled and pooled[1],
        )
        return better(self._domain, task, entry, self.entries.get(task.key))

    def composed(self, index: int, task: TaskExample, answer: Outputs, origins: Sequence[str]) -> Entry:
        """The entry of a task whose answer is composed of those of sub-tasks, with the counts of the hardest."""
        hardest = min((self.entries[key] for key in origins), key=lambda entry: entry.rate)
        cost = None if self._domain.cost is None else self._domain.cost(task.example, answer)
        inputs, tokens = dict(task.example.inputs().items()), self._spent.get(task.key, TokenCount())
        return replace(
            hardest, task_key=task.key, inputs=inputs, outputs=answer, calls={}, iteration=index, tokens=tokens,
            cost=cost, answer_iteration=None, held_out=None, composed_from=tuple(origins),
        )  # fmt: skip

    def hold_out(self, refused: Mapping[str, Outputs]) -> None:
        """Marks the entries of the run's tasks, each once, with the held-out verdicts on their answers.

        `refused` has wrong answers by task, of which the first are judged, too.
        """
        if self._domain.hold_out is None:
            return
        own = [key for key in self._tasks if key in self.entries and self.entries[key].held_out is None]
        others = [key for key in self._tasks if key in refused][:MOST_REFUSED]
        right = [(self._tasks[key].example, self.entries[key].outputs) for key in own]
        wrong = [(self._tasks[key].example, refused[key]) for key in others]
        found = self._domain.hold_out(right, wrong)
        for key, verdict in zip(own, found, strict=False):
            self.entries[key] = replace(self.entries[key], held_out=verdict)
            if verdict is not None and verdict.answer == "failed":
                logger.warning("%s: its answer fails on held-out data: %s", key, verdict.reason)
        judged = zip(others, found[len(own) :], strict=True)
        self.refused = {key: verdict for key, verdict in judged if verdict is not None}

    def extend(self, chosen: Mapping[str, Entry]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Adds an iteration's entries; returns the keys of the tasks solved, and of those improved."""
        solved = tuple(key for key in chosen if key not in self.entries)
        improved = tuple(key for key in chosen if key not in solved and chosen[key] is not self.entries[key])
        self.entries = in_task_order({**self.entries, **chosen}, self._tasks)
        return solved, improved
