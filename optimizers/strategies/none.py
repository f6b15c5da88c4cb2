"""`none` and `resample`: no demonstrations, one pass or passes until a limit; the controls of learning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from optimizers.strategies.base import UNAIDED, DemoSet, Progress


@dataclass(frozen=True)
class NoDemonstrations:
    """One pass over the tasks, without learning.

    Attributes:
        label: The name of the pass.
        name: As in the registry; another optimizer's program has its own.
    """

    label: str = UNAIDED
    name: str = "none"

    def demo_sets(self, progress: Progress) -> Iterator[DemoSet]:
        """See `Selection.demo_sets`."""
        yield DemoSet(self.label)

    def candidates(self, progress: Progress) -> Sequence[DemoSet]:
        """See `Selection.candidates`: none."""
        return ()


@dataclass(frozen=True)
class Resample(NoDemonstrations):
    """Passes over the unsolved tasks without learning, each with new samples, until the budget ends the run.

    It spends as much as a strategy that learns, so the difference between the two is the gain by learning.
    """

    name: str = "resample"

    def demo_sets(self, progress: Progress) -> Iterator[DemoSet]:
        """See `Selection.demo_sets`; never ends."""
        while True:
            yield DemoSet(self.label)
