"""The contract between a run and its selection strategy, which chooses the next demonstrations; the paper's cycles.

Below are the strategies that show every task the same: the paper's own, `adaptive`, and its controls.

Levels of difficulty, the selection function β (paper, Section 3.2): they are disjoint and hold all of D; d_j grows with
j and the last d_j is D; entries of one rate share a level; the order within D is kept among entries of one rate.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from operator import attrgetter
from typing import ClassVar, Protocol, runtime_checkable

from optimizers.attempt import TaskExample
from optimizers.experience import Entry
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
