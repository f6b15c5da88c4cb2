"""A chip's transfers fitted to measured cycles of kernels that loads bind, as published for STeP's simulator.

The law is `cycles = loaded / bandwidth + latency + tile / drain`: the bytes loaded, and those of the largest tile,
which passes once more before the kernel ends.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from step_runtime.base.errors import ChipError
from step_runtime.cost.chip import Chip

_COLUMNS = ("kernel", "cycles", "loaded", "tile")
_ROUNDS = 50
"""Of least squares, each row weighted by one over its error before: a kernel that follows another law pulls nothing."""


class Measured(NamedTuple):
    """A kernel's measured cycles, the bytes that it loads, and those of its largest tile."""

    kernel: str
    cycles: int
    loaded: int
    tile: int


def read_measured(path: Path) -> list[Measured]:
    """Reads a CSV file with the columns kernel, cycles, loaded and tile.

    Raises:
        ChipError: It can't be read, lacks a column, or has fewer than three kernels.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        found = [Measured(row["kernel"], *(int(row[name]) for name in _COLUMNS[1:])) for row in rows]
    except (OSError, ValueError, TypeError, KeyError, csv.Error) as error:
        raise ChipError(f"{path}: expected a CSV file with the columns {', '.join(_COLUMNS)}: {error}") from None
    if len(found) < len(_COLUMNS) - 1:
        raise ChipError(f"{path}: expected three kernels or more, found {len(found)}")
    return found


def fitted(rows: Sequence[Measured], chip: Chip) -> Chip:
    """The chip with the bandwidth, latency and drain that fit most kernels.

    Raises:
        ChipError: The kernels don't tell the three apart, or no chip has such cycles.
    """
    facts = np.array([[row.loaded, 1.0, row.tile] for row in rows])
    cycles = np.array([row.cycles for row in rows], dtype=float)
    if np.linalg.matrix_rank(facts) < facts.shape[1]:
        raise ChipError("the kernels have one size of tile, or one ratio: measure some with other loads and tiles")
    weights = np.ones(len(rows))
    for _ in range(_ROUNDS):
        root = np.sqrt(weights)[:, None]
        law, *_ = np.linalg.lstsq(facts * root, cycles * root[:, 0], rcond=None)
        weights = 1 / np.maximum(np.abs(facts @ law - cycles), 0.1)
    if law[0] <= 0 or law[2] <= 0:
        raise ChipError("no chip has these cycles: they fall where more bytes are loaded, or with larger tiles")
    bandwidth, latency, drain = round(1 / law[0]), round(law[1]), round(1 / law[2])
    found = {"bandwidth": max(1, bandwidth), "latency": max(0, latency), "drain": max(1, drain)}
    return chip.model_copy(update={**found, "name": "calibrated"})


def predicted(row: Measured, chip: Chip) -> int:
    """The cycles of a kernel that loads bind."""
    return chip.loading(8 * row.loaded, 8 * row.tile)
