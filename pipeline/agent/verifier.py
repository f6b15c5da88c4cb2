"""Verification on behalf of the agent's own modules: repairs and tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dspy

from pipeline.verification.metric import Metric, Reward
from step_runtime.tasks.task import Task

MetricFn = Callable[[Any, Any], Reward]
"""Judges a prediction on an example, such as `pipeline.verification.metric.Metric`."""


class ProgramVerifier:
    """Verifies programs while the agent runs; copies of an agent share it.

    Attributes:
        metric: What verifies; None for verification in this process, without a memory limit.
        tasks: The tasks that the user named: of the tasks in a prompt, only their code may run.
    """

    def __init__(self, metric: MetricFn | None = None) -> None:
        self.metric = metric
        self.tasks: list[Task] = []

    def __call__(self, task: Task, impl: str) -> Reward:
        """The verdict on a program.

        Raises:
            TaskError: The task can't be used, or its reference fails.
        """
        if self.metric is None:
            self.metric = Metric()
        return self.metric(dspy.Example(task=task), dspy.Prediction(impl=impl))

    def __deepcopy__(self, memo: dict[int, Any]) -> ProgramVerifier:
        return self
