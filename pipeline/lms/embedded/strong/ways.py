"""Ways to apply functions to streams of some types, as the samples of a task share them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipeline.lms.embedded.caches import BoundedCache
from pipeline.lms.embedded.types.coercions import Coercion
from pipeline.lms.embedded.types.type_table import FoldSpec, TypeId


class Way(NamedTuple):
    """A way to apply a function to streams of some types."""

    coercions: tuple[Coercion, ...]
    result: TypeId
    fold: FoldSpec | None = None


class Ways(NamedTuple):
    """Ways and their scores, and the work that finding them was: each piece with its steps."""

    ways: Sequence[Way]
    scores: Sequence[float]
    works: Sequence[tuple[int, int]]


class MoveMemory:
    """What the builders of one task find out that depends only on types and examples; its samples share it."""

    def __init__(self) -> None:
        self.ways: BoundedCache[tuple[object, ...], Ways] = BoundedCache()
        self.same: BoundedCache[Way, Way] = BoundedCache()
        """Equal ways are mostly one object: there are few, each in many entries."""
