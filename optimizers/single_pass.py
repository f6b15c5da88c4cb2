"""The baseline without learning: one pass over the tasks, without demonstrations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from optimizers.driver import DrivenOptimizer, Driver, Options


class SinglePass(DrivenOptimizer):
    """Samples every task once, with the same loop and record as `AdaptiveFewShot`, and learns nothing from it.

    Arguments are those of `AdaptiveFewShot`; `granularity` is for the record only.
    """

    def __init__(
        self, metric: Callable[..., Any], num_samples: int = 64, granularity: int = 3, **options: Unpack[Options]
    ) -> None:
        super().__init__(Driver(metric, num_samples, granularity, "none", **options))
