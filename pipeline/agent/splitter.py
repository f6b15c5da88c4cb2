"""The splitter: an LM's choice of the values at which a task is split."""

from __future__ import annotations

from collections.abc import Sequence

import dspy
from dspy.utils.exceptions import AdapterParseError

from signatures import Split
from step_runtime.tasks.task import Task


class Splitter(dspy.Module):
    """Chooses cuts among the values that a reference computes on its way."""

    def __init__(self) -> None:
        super().__init__()
        self.predict = dspy.Predict(Split)

    def forward(self, task: Task, values: Sequence[str]) -> dspy.Prediction:
        """A prediction with `cuts`: the names chosen that are those of values, in the order of these.

        Args:
            task: The task.
            values: The values to choose from, each its name, a colon, and what is said of it.
        """
        names = [value.partition(":")[0] for value in values]
        try:
            chosen = self.predict(task=task.without_impl(), values=list(values)).cuts
        except AdapterParseError:  # an answer that is no list of names chooses none
            chosen = []
        return dspy.Prediction(cuts=tuple(name for name in names if name in chosen))
