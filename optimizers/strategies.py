"""Selection strategies: which solved tasks an iteration shows as demonstrations, and in what order.

First the contract between a run and its strategy, and the strategies that show every task the same: the paper's own,
`adaptive`, and its controls; then `coverage`, which chooses for each task.

Levels of difficulty, the selection function β (paper, Section 3.2): they are disjoint and hold all of D; d_j grows with
j and the last d_j is D; entries of one rate share a level; the order within D is kept among entries of one rate.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, count
from operator import attrgetter
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, runtime_checkable

from optimizers.attempt import TaskExample
from optimizers.domain import Domain, Outputs
from optimizers.errors import UnknownSelectionError
from optimizers.experience import Entry, Experience
from optimizers.requests import derive_seed
from optimizers.state import State


@dataclass(frozen=True, slots=True)
class Pick:
    """A demonstration chosen for a task, and why, in a few words, for the record."""

    entry: Entry
    reason: str = ""


SelectForTask = Callable[[TaskExample, int | None], Sequence[Pick]]
"""Chooses the demonstrations for a task that is about to be sampled, hardest first.

The second argument is the tokens that all of them together may have, or else the whole prompt; None for no limit. The
run omits, from the end, what exceeds it.
"""


@dataclass(frozen=True, slots=True)
class DemoSet:
    """The demonstrations of one iteration, and its name in the record.

    Attributes:
        label: Name of the iteration, such as `HM_2`: in the record, in the name of its MLflow run up to `_`, in charts
            with what follows `_` as a subscript.
        demos: Demonstrations d_j, in the order of the prompt, the same for every task.
        level: Index j of d_j in its cycle; -1 for a pass without demonstrations.
        cycle: From 1; 0 for a pass before any cycle.
        select: Chooses per task; None: every task is shown `demos`.
    """

    label: str
    demos: Sequence[Entry] = ()
    level: int = -1
    cycle: int = 0
    select: SelectForTask | None = None


@runtime_checkable
class Selection(Protocol):
    """Chooses the demonstrations of a run's next iteration.

    Contract: all state of a run is in `progress`, so one strategy serves several runs; the same progress gives the
    same demonstration sets, so that a run can be repeated and resumed.

    """

    @property
    def name(self) -> str:
        """The name in `optimizers.strategies.registry`, recorded among the settings."""

    def demo_sets(self, progress: State) -> Iterator[DemoSet]:
        """The demonstration sets to try, one per iteration.

        The run samples every unsolved task with each set before it asks for the next, when `progress` holds the
        result. It stops once every task is solved. If the iterator ends, the run is exhausted.
        """

    def candidates(self, progress: State) -> Sequence[DemoSet]:
        """The sets that the compiled program may carry, the default first; none for no demonstrations.

        A validation set chooses among them; without one, the default is taken.
        """


def stratify(entries: Iterable[Entry], granularity: int) -> list[list[Entry]]:
    """β(D, m): the levels of D, hardest first, each by ascending success rate.

    D, sorted by rate, is cut into m runs as even as possible; the first runs take the surplus. The rate of a run's
    last entry is its boundary. Level j then takes every entry with a rate in (boundary j-1, boundary j], which
    moves ties to the harder level and may leave a level empty. Fewer entries than m give fewer levels.

    Args:
        entries: D, in task order, which breaks ties between equal rates.
        granularity: The number of levels m, at least 1.

    Raises:
        ValueError: `granularity` is less than 1.
    """
    if granularity < 1:
        raise ValueError(f"granularity is a number of levels, at least 1, not {granularity}")
    ranked = hardest_first(entries)
    if not ranked:
        return []
    runs = min(granularity, len(ranked))
    size, surplus = divmod(len(ranked), runs)
    ends = accumulate(size + (run < surplus) for run in range(runs))
    boundaries = [ranked[end - 1].rate for end in ends]
    levels: list[list[Entry]] = [[] for _ in boundaries]
    for entry in ranked:
        levels[next(j for j, boundary in enumerate(boundaries) if entry.rate <= boundary)].append(entry)
    return levels


def cumulative(levels: Sequence[Sequence[Entry]]) -> list[list[Entry]]:
    """d_0, d_1, …: the unions of levels 0..j, in the order of the levels (Algorithm 1, line 6)."""
    return [[entry for level in levels[: j + 1] for entry in level] for j in range(len(levels))]


def hardest_first(entries: Iterable[Entry]) -> list[Entry]:
    """The entries by ascending success rate; those of one rate keep their order."""
    return sorted(entries, key=lambda entry: entry.rate)


UNAIDED = "None"
"""Label of a pass without demonstrations, as in the paper's Figure 7."""


class Cycles(ABC):
    """A pass without demonstrations, then cycles over the sets that `order` makes of D.

    A cycle starts over from the first set once an iteration solves something. It ends the run when its last set solves
    nothing. Repeated sets are sampled again, which doubles the samples for the hard tasks.
    """

    @abstractmethod
    def order(self, entries: Sequence[Entry], rng: random.Random) -> list[list[Entry]]:
        """The sets of D, which is in task order and not empty, in the order to try them."""

    @abstractmethod
    def level_label(self, level: int) -> str:
        """The name of the set with this index; without `_`."""

    def demo_sets(self, progress: State) -> Iterator[DemoSet]:
        """See `Selection.demo_sets`."""
        if not progress.entries:
            yield DemoSet(UNAIDED)
        for cycle in count(1 + max((result.cycle for result in progress.iterations), default=0)):
            for demo_set in self._cycle(progress, cycle):
                yield demo_set
                if progress.iterations[-1].learned:
                    break
            else:  # the last set solved nothing, or D is empty
                return

    def candidates(self, progress: State) -> Sequence[DemoSet]:
        """See `Selection.candidates`: the sets of the next cycle."""
        return self._cycle(progress, 1 + max((result.cycle for result in progress.iterations), default=0))

    def _cycle(self, progress: State, cycle: int) -> list[DemoSet]:
        entries = list(progress.entries.values())
        sets = self.order(entries, random.Random(derive_seed("selection", progress.seed, cycle))) if entries else []
        return [DemoSet(f"{self.level_label(j)}_{cycle}", demos, j, cycle) for j, demos in enumerate(sets)]


@dataclass(frozen=True)
class Adaptive(Cycles):
    """The hardest of m levels of D, then the hardest two, and so on up to D."""

    granularity: int = 3
    name: ClassVar[str] = "adaptive"

    def order(self, entries: Sequence[Entry], rng: random.Random) -> list[list[Entry]]:
        """d_0, d_1, …, hardest first, ties by task order."""
        return cumulative(stratify(entries, self.granularity))

    def level_label(self, level: int) -> str:
        """`H`, `HM`, `HME` for three levels, else `1`, `12`, … (`1-2` from ten on)."""
        if self.granularity == 3:
            return "HME"[: level + 1]
        return ("" if self.granularity < 10 else "-").join(str(j + 1) for j in range(level + 1))


@dataclass(frozen=True)
class Everything(Cycles):
    """All of D, by ascending `key`: hardest first, as `adaptive` with one level, unless it says otherwise."""

    name: str = "everything"
    key: Callable[[Entry], float] = attrgetter("rate")

    def order(self, entries: Sequence[Entry], rng: random.Random) -> list[list[Entry]]:
        """D alone."""
        return [sorted(entries, key=self.key)]

    def level_label(self, level: int) -> str:
        """`all`."""
        return "all"


@dataclass(frozen=True)
class RandomChoice(Cycles):
    """Random sets without replacement, of the sizes of those of `adaptive`: the control for difficulty."""

    granularity: int = 3
    name: ClassVar[str] = "random"

    def order(self, entries: Sequence[Entry], rng: random.Random) -> list[list[Entry]]:
        """Sets of the sizes of d_0, d_1, …, each in random order."""
        return [rng.sample(list(entries), len(demos)) for demos in cumulative(stratify(entries, self.granularity))]

    def level_label(self, level: int) -> str:
        """`random-1`, `random-2`, …: the level whose size the set has."""
        return f"random-{level + 1}"


@dataclass(frozen=True)
class NoDemonstrations:
    """One pass over the tasks, without learning.

    Attributes:
        label: The name of the pass.
        name: As in the registry; another optimizer's program has its own.
    """

    label: str = UNAIDED
    name: str = "none"

    def demo_sets(self, progress: State) -> Iterator[DemoSet]:
        """See `Selection.demo_sets`."""
        yield DemoSet(self.label)

    def candidates(self, progress: State) -> Sequence[DemoSet]:
        """See `Selection.candidates`: none."""
        return ()


@dataclass(frozen=True)
class Resample(NoDemonstrations):
    """Passes over the unsolved tasks without learning, each with new samples, until the budget ends the run.

    It spends as much as a strategy that learns, so the difference between the two is the gain by learning.
    """

    name: str = "resample"

    def demo_sets(self, progress: State) -> Iterator[DemoSet]:
        """See `Selection.demo_sets`; never ends."""
        while True:
            yield DemoSet(self.label)


# --- `coverage`: to each task the solved tasks that together have its structures --------------------------------------
# A structure is any hashable feature of a task or of its answer (`Domain.structures`). Rare structures weigh more:
# w(f) = log(1 + n / df(f)), where df(f) of the n solved tasks have f.

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


# --- strategies by name -----------------------------------------------------------------------------------------------

SELECTIONS: Mapping[str, Callable[[int], Selection]] = MappingProxyType(
    {
        "adaptive": Adaptive,
        "everything": lambda granularity: Everything(),
        "random": RandomChoice,
        "coverage": lambda granularity: Coverage(),
        "relevance": Relevance,
        "savings": lambda granularity: Everything(
            "savings", lambda entry: (entry.cost or 0) / entry.dearer[0] if entry.dearer else 1
        ),
        "none": lambda granularity: NoDemonstrations(),
        "resample": lambda granularity: Resample(),
    }
)
"""Factories of strategies with m levels; strategies without levels ignore m."""


def make_selection(selection: str | Selection, granularity: int = 3) -> Selection:
    """The strategy called `selection`, or `selection` itself if it is one.

    Raises:
        TypeError: It is neither a name nor a strategy.
        UnknownSelectionError: No strategy has that name; the message lists the known ones.
    """
    if isinstance(selection, Selection):
        return selection
    if not isinstance(selection, str):
        raise TypeError(f"selection: expected a name or an optimizers.Selection, found {type(selection).__name__}")
    if selection not in SELECTIONS:
        known = ", ".join(SELECTIONS)
        raise UnknownSelectionError(f"selection: unknown strategy {selection!r}; expected one of {known}")
    return SELECTIONS[selection](granularity)
