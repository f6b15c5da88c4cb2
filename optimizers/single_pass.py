"""What any learning is held against: one pass over the tasks, without demonstrations."""

from __future__ import annotations

from collections.abc import Sequence

from optimizers.adaptive import AdaptiveFewShot
from optimizers.experience import Entry
from optimizers.run import Run, Step
from optimizers.sampling import Task


class SinglePass(AdaptiveFewShot):
    """Samples every task once over, with the same machinery and record, and learns nothing from it."""

    def _learn(self, run: Run, validation: Sequence[Task]) -> str:
        if run.unsolved:
            run.iterate(Step())
        return "exhausted" if run.unsolved else "solved"

    def _choose(self, run: Run, validation: Sequence[Task]) -> Sequence[Entry]:
        return ()
