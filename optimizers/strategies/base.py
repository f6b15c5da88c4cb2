"""The contract between a run and its selection strategy, which chooses the next demonstrations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from optimizers.domain import Domain
from optimizers.experience import Entry, IterationResult
from optimizers.sampling import TaskExample


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


class Progress(Protocol):
    """The part of a run that a strategy sees."""

    @property
    def entries(self) -> Mapping[str, Entry]:
        """D by task name, in task order; entries of an earlier run's other tasks come first."""

    @property
    def domain(self) -> Domain:
        """How tasks and answers are compared."""

    @property
    def unsolved(self) -> Sequence[TaskExample]:
        """The tasks without an entry, in task order."""

    @property
    def tasks(self) -> Mapping[str, TaskExample]:
        """All tasks of the run by name, in task order."""

    @property
    def iterations(self) -> Sequence[IterationResult]:
        """The finished iterations, in order."""

    @property
    def nearest_misses(self) -> Mapping[str, Mapping[str, Any]]:
        """By task, the fields of its best wrong answer in the finished iterations; tasks without one are absent."""

    @property
    def max_demo_tokens(self) -> int | None:
        """Estimated tokens that all demonstrations of a prompt together may have; None for no limit."""

    @property
    def seed(self) -> int:
        """The run's seed, from which a strategy derives everything random."""

    def demo_tokens(self, entry: Entry) -> int:
        """Estimated size of the entry's demonstration in a prompt, in tokens."""


@runtime_checkable
class Selection(Protocol):
    """Chooses the demonstrations of a run's next iteration.

    Contract: all state of a run is in `progress`, so one strategy serves several runs; the same progress gives the
    same demonstration sets, so that a run can be repeated and resumed.

    """

    @property
    def name(self) -> str:
        """The name in `optimizers.strategies.registry`, recorded among the settings."""

    def demo_sets(self, progress: Progress) -> Iterator[DemoSet]:
        """The demonstration sets to try, one per iteration.

        The run samples every unsolved task with each set before it asks for the next, when `progress` holds the
        result. It stops once every task is solved. If the iterator ends, the run is exhausted.
        """

    def candidates(self, progress: Progress) -> Sequence[DemoSet]:
        """The sets that the compiled program may carry, the default first; none for no demonstrations.

        A validation set chooses among them; without one, the default is taken.
        """
