"""The randomness of one sample."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class SeededChoice:
    """Chooses by scores, from one seed.

    `sharpness` multiplies all scores: large values make the best choice nearly certain, 0 makes all equal.
    """

    def __init__(self, seed: int, sharpness: float) -> None:
        self._random = random.Random(seed)
        self._sharpness = sharpness

    def pick(self, items: Sequence[T], scores: Sequence[float]) -> T:
        """One item, by the softmax of the scores."""
        if len(items) == 1:
            return items[0]
        top = max(scores)
        weights = [math.exp((score - top) * self._sharpness) for score in scores]
        return self._random.choices(items, weights)[0]

    def noise(self) -> float:
        """What added to scores makes the order of the sums an order of choices by softmax, without replacement."""
        return -math.log(-math.log(self._random.random() or 0.5)) / self._sharpness

    def any_of(self, items: Sequence[T]) -> T:
        """One item, uniformly."""
        return self._random.choice(items)

    def shuffled(self, items: Sequence[T]) -> tuple[T, ...]:
        """The items in any order."""
        return tuple(self._random.sample(items, len(items)))

    def happens(self, probability: float) -> bool:
        """True with this probability."""
        return self._random.random() < probability
