"""Adaptive self-improvement learning as a DSPy optimizer (paper, Section 3, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from optimizers.driver import DrivenOptimizer, Options
from optimizers.strategies.base import Selection


class AdaptiveFewShot(DrivenOptimizer):
    """Samples a program on all unsolved tasks, showing it its own solutions, as long as that helps.

    Each predictor of the program is shown its own inputs and its own answers from the attempt that solved a task: every
    call, or those that `trace_calls` selects.

    Args:
        metric: `metric(example, prediction)`, returning a bool, a float, or a prediction with a `score` and
            further fields to record. Called in several threads at once, right after each sample.
        num_samples: Samples per task and temperature.
        granularity: The number m of levels of difficulty.
        selection: What to show next: `adaptive` (the paper's β, hardest level first), `everything`, `random`; to each
            task its own, `coverage`; nothing, `none`, `resample`; or your own `Selection`.
        **options: `temperatures` ((0.4, 0.7, 1.0)), `threads` (8), `seed` (0), `budget`, `domain`, `observers` and
            others, as in `optimizers.driver.Driver`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of its range.
    """

    def __init__(
        self,
        metric: Callable[..., Any],
        num_samples: int = 64,
        granularity: int = 3,
        *,
        selection: str | Selection = "adaptive",
        **options: Unpack[Options],
    ) -> None:
        super().__init__(metric, num_samples, granularity, selection, **options)
