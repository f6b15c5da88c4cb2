"""Algorithm 1's cycles, for every strategy that orders D into sets of demonstrations (paper, Section 3)."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import count

from optimizers.call_seeds import derive_seed
from optimizers.experience import Entry
from optimizers.strategies.base import DemoSet, Progress

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

    def demo_sets(self, progress: Progress) -> Iterator[DemoSet]:
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

    def candidates(self, progress: Progress) -> Sequence[DemoSet]:
        """See `Selection.candidates`: the sets of the next cycle."""
        return self._cycle(progress, 1 + max((result.cycle for result in progress.iterations), default=0))

    def _cycle(self, progress: Progress, cycle: int) -> list[DemoSet]:
        entries = list(progress.entries.values())
        sets = self.order(entries, random.Random(derive_seed("selection", progress.seed, cycle))) if entries else []
        return [DemoSet(f"{self.level_label(j)}_{cycle}", demos, j, cycle) for j, demos in enumerate(sets)]
