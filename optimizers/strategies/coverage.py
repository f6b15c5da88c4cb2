"""`coverage`: to each task the solved tasks that together have its structures.

A structure is any hashable feature of a task or of its answer (`Domain.structures`). Rare structures weigh more:
w(f) = log(1 + n / df(f)), where df(f) of the n solved tasks have f.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

from optimizers.attempt import TaskExample
from optimizers.domain import Domain, Outputs
from optimizers.experience import Entry, Experience
from optimizers.state import State
from optimizers.strategies.base import UNAIDED, Cycles, DemoSet, Pick, hardest_first

Structures = frozenset[Hashable]
Misses = Mapping[str, Mapping[str, Any]]

MOST_RELEVANT, LEAST_RELEVANCE = 2, 0.4
MOST = 8
"""Demonstrations of a task that shares no structure with any, where no number of tokens limits them."""


class Weights:
    """Weights of structures, from how many solved tasks have each."""

    def __init__(self, solved: Collection[Structures]) -> None:
        counts = Counter(structure for structures in solved for structure in structures)
        self._weights = {structure: math.log1p(len(solved) / count) for structure, count in counts.items()}

    def total(self, structures: Structures) -> float:
        """The summed weight; structures that no solved task has weigh 0."""
        return math.fsum(self._weights.get(structure, 0.0) for structure in structures)

    def similarity(self, one: Structures, other: Structures) -> float:
        """The weighted Jaccard index, in [0, 1]: the common weight over the weight of the union."""
        union = self.total(one | other)
        return self.total(one & other) / union if union else 0.0

    def heaviest(self, structures: Structures, count: int = 3) -> list[str]:
        """The texts of the structures with the largest weights."""
        return [str(s) for s in sorted(structures, key=lambda s: (-self._weights.get(s, 0.0), str(s)))[:count]]


@dataclass(frozen=True)
class Candidate:
    """A solved task that may be shown, its structures, and the estimated tokens of its demonstration."""

    entry: Entry
    structures: Structures
    tokens: int


def cover(query: Structures, pool: Sequence[Candidate], weights: Weights, tokens: int | None) -> list[Pick]:
    """Greedily the candidate with the largest weight of structures not yet covered per token; of equals the first.

    Once all that can be covered is, it starts over while tokens are left; without a limit of tokens it ends. Where
    nothing shares a structure with the query, the first candidates are picked (after Levy et al., arXiv 2212.06800,
    and the set-BSR of Gupta et al., arXiv 2305.14907).
    """
    picks, missing, left = list[Pick](), query, list(pool)
    room = float("inf") if tokens is None else tokens
    while left := [candidate for candidate in left if candidate.tokens <= room]:
        gains = {id(candidate): weights.total(missing & candidate.structures) for candidate in left}
        best = max(left, key=lambda candidate: gains[id(candidate)] / max(1, candidate.tokens))
        if not gains[id(best)]:
            if missing == query or tokens is None:
                break
            missing = query
            continue
        examples = ", ".join(weights.heaviest(missing & best.structures))
        picks.append(Pick(best.entry, f"covers structures of weight {gains[id(best)]:.1f}, such as {examples}"))
        missing, room = missing - best.structures, room - best.tokens
        left.remove(best)
    if picks:
        return picks
    for candidate in pool:
        if candidate.tokens <= room and (tokens is not None or len(picks) < MOST):
            picks.append(Pick(candidate.entry, "nothing shares a structure with the task"))
            room -= candidate.tokens
    return picks


@dataclass(frozen=True)
class DemoPool:
    """Solved tasks, from which each task is shown what suits its inputs and its nearest miss, the best wrong answer.

    As a `Selection` it is a single pass that does so.

    Attributes:
        entries: The solved tasks, the hardest first.
        tokens: Estimated tokens of all demonstrations of a task; None: as many as cover it.
        relevant: Whether a task is shown the most relevant ones, in place of those that cover it.
    """

    entries: tuple[Entry, ...]
    tokens: int | None = None
    relevant: bool = False
    name: ClassVar[str] = "coverage"

    @classmethod
    def of(cls, experience: Experience, tokens: int | None = None, *, relevant: bool = False) -> DemoPool:
        """What a run solved, without what fell on held-out data."""
        return cls(tuple(entry for entry in experience.entries if not entry.fallen), tokens, relevant)

    def chooser(self, domain: Domain, size: Callable[[Entry], int], misses: Misses = MappingProxyType({})) -> Chooser:
        """What chooses; `size` estimates the tokens of a demonstration, `misses` are fields of answers by task."""
        pool = [Candidate(each, domain.structures(each.inputs, each.outputs), size(each)) for each in self.entries]
        return (MostRelevant if self.relevant else Chooser)(pool, domain, misses, self.tokens)

    def demo_sets(self, progress: State) -> Iterator[DemoSet]:
        """See `Selection.demo_sets`."""
        yield DemoSet(self.name, select=self.chooser(progress.domain, progress.demo_tokens).for_task)

    def candidates(self, progress: State) -> Sequence[DemoSet]:
        """See `Selection.candidates`: none, as what the program shows stays as it is."""
        return ()


class Chooser:
    """Chooses from candidates."""

    def __init__(self, pool: Sequence[Candidate], domain: Domain, misses: Misses, tokens: int | None) -> None:
        self._pool, self._domain, self._misses, self._tokens = pool, domain, misses, tokens
        self._weights = Weights([each.structures for each in pool])

    def for_task(self, task: TaskExample, token_budget: int | None = None) -> list[Pick]:
        """See `SelectForTask`; no task is shown a solution of its own name."""
        pool = [candidate for candidate in self._pool if candidate.entry.task_key != task.key]
        limit = min((each for each in (token_budget, self._tokens) if each is not None), default=None)
        return sorted(cover(self._query(task), pool, self._weights, limit), key=lambda pick: pick.entry.rate)

    def for_all(self, tasks: Iterable[TaskExample]) -> list[Entry]:
        """Those that suit all tasks together, the most useful first."""
        query = frozenset[object]().union(*map(self._query, tasks))
        return [pick.entry for pick in cover(query, self._pool, self._weights, self._tokens)]

    def _query(self, task: TaskExample) -> Structures:
        return self._domain.structures(dict(task.example.inputs().items()), self._misses.get(task.key))


class MostRelevant(Chooser):
    """Chooses for a task the few most relevant solved ones; none that are hardly relevant, as they do harm."""

    def for_task(self, task: TaskExample, token_budget: int | None = None) -> list[Pick]:
        """The most relevant last."""
        query, picks = dict(task.example.inputs().items()), list[Pick]()
        limits = [each for each in (token_budget, self._tokens) if each is not None]
        room = min(limits, default=float("inf"))
        weighed = [(self._relevance(query, each), each) for each in self._pool if each.entry.task_key != task.key]
        for weight, each in sorted(weighed, key=lambda pair: -pair[0]):
            if len(picks) < MOST_RELEVANT and weight >= LEAST_RELEVANCE and each.tokens <= room:
                picks.insert(0, Pick(each.entry, f"relevance {weight:.2f}"))
                room -= each.tokens
        return picks

    def _relevance(self, query: Outputs, shown: Candidate) -> float:
        if self._domain.relevance is not None:
            return self._domain.relevance(query, shown.entry.inputs, shown.entry.outputs)
        own, other = (self._domain.structures(inputs, None) for inputs in (query, shown.entry.inputs))
        return len(own & other) / max(1, len(own | other))


class Coverage(Cycles):
    """Cycles with one set: of D every unsolved task is shown what suits it.

    The compiled program, which serves any task, carries what suits all tasks of the run together.
    """

    name: ClassVar[str] = "coverage"
    relevant: ClassVar[bool] = False

    def order(self, entries: Sequence[Entry], rng: random.Random) -> list[list[Entry]]:
        """D alone, hardest first."""
        return [hardest_first(entries)]

    def level_label(self, level: int) -> str:
        """`coverage`."""
        return self.name

    def _cycle(self, progress: State, cycle: int) -> list[DemoSet]:
        sets = []
        for demo_set in super()._cycle(progress, cycle):
            pool = DemoPool(tuple(demo_set.demos), progress.max_demo_tokens, self.relevant)
            chooser = pool.chooser(progress.domain, progress.demo_tokens, progress.nearest_misses)
            sets.append(replace(demo_set, demos=chooser.for_all(progress.tasks.values()), select=chooser.for_task))
        return sets


class Relevance(Coverage):
    """Cycles over one set, sampled several times: every task that failed without is shown what is most relevant to it.

    A pass without demonstrations comes first even where a run starts with solved tasks: they can do harm.
    """

    name: ClassVar[str] = "relevance"
    relevant: ClassVar[bool] = True

    def __init__(self, passes: int = 3) -> None:
        self._passes = passes

    def order(self, entries: Sequence[Entry], rng: random.Random) -> list[list[Entry]]:
        """D, as often as passes may fail."""
        return super().order(entries, rng) * self._passes

    def level_label(self, level: int) -> str:
        """`relevance1`, `relevance2` and so on."""
        return f"{self.name}{level + 1}"

    def demo_sets(self, progress: State) -> Iterator[DemoSet]:
        """See `Selection.demo_sets`."""
        if progress.entries and not progress.iterations:
            yield DemoSet(UNAIDED)
        yield from super().demo_sets(progress)
