"""A bound on the work of one sample, counted in steps of the search and never in seconds.

The count depends on the task, the seed and the temperature alone, not on what earlier samples left in a cache, so a
seed gives the same answer on every machine and in every order of requests.
"""

from __future__ import annotations

from collections.abc import Hashable


class StepsExhausted(Exception):
    """The sample has used all its steps."""


class StepLimit:
    """Counts the steps of one sample.

    Attributes:
        most: Steps after which the sample ends.
        used: Steps so far.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        self._seen: set[Hashable] = set()

    def spend(self, steps: int = 1) -> None:
        """Counts steps.

        Raises:
            StepsExhausted: There were too many.
        """
        self.used += steps
        if self.used > self.most:
            raise StepsExhausted

    def spend_once(self, work: Hashable, steps: int) -> None:
        """Counts the steps of a piece of work the first time that this sample does it, and one step later.

        Raises:
            StepsExhausted: There were too many.
        """
        if work in self._seen:
            self.spend()
        else:
            self.spend(steps)
            self._seen.add(work)
