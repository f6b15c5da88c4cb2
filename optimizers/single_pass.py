"""The baseline without learning: one pass over the tasks, without demonstrations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from optimizers.driver import DrivenOptimizer, Driver, Options


class SinglePass(DrivenOptimizer):
    """Samples every task once, with the same loop and record as `AdaptiveFewShot`, and learns nothing from it.

    Args:
        metric: As for `AdaptiveFewShot`.
        num_samples: Samples per task and temperature.
        granularity: For the record only.
        **options: As for `AdaptiveFewShot`.
    """

    def __init__(
        self, metric: Callable[..., Any], num_samples: int = 64, granularity: int = 3, **options: Unpack[Options]
    ) -> None:
        super().__init__(Driver(metric, num_samples, granularity, "none", **options))
