"""How much of what the elements of two arrays depend on is the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from step_runtime.base.shapes import Dim


def aligned(
    mine: NDArray[np.uint64], dims: tuple[Dim, ...], wanted: NDArray[np.uint64] | None, wanted_dims: tuple[Dim, ...]
) -> float:
    """The share of the sets of some elements that those at the same positions of an output have, too."""
    if wanted is None:
        return 1.0
    left = list(range(len(wanted_dims)))
    axes: list[int | None] = []
    for dim in dims:
        place = next((axis for axis in left if wanted_dims[axis] == dim), None)
        axes.append(place)
        if place is not None:
            left.remove(place)
    lost = [dim for dim, axis in zip(dims, axes, strict=True) if axis is None and not dim.is_Integer]
    if any(not (dim.is_Symbol or dim.is_Integer) for dim in (*lost, *(wanted_dims[axis] for axis in left))):
        return 1.0
    gone = tuple(place for place, axis in enumerate(axes) if axis is None)
    kept = [axis for axis in axes if axis is not None]
    sets = np.bitwise_or.reduce(mine, axis=gone) if gone else mine
    order = sorted(range(len(kept)), key=kept.__getitem__)
    spread = tuple(np.newaxis if axis in left else slice(None) for axis in range(len(wanted_dims)))
    sets = sets.transpose(order)[spread]
    shares = np.bitwise_count(sets & wanted) / np.maximum(np.bitwise_count(sets), 1)
    return float(np.where(sets == 0, 1.0, shares).mean())


def alike(mine: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> float:
    """The share of positions that two lists of sets have in common, on average."""
    if np.array_equal(mine, wanted):
        return 1.0
    common, all_ = np.bitwise_count(mine & wanted), np.bitwise_count(mine | wanted)
    return float(np.where(all_ == 0, 1.0, common / np.maximum(all_, 1)).mean())
