"""When the tokens of a stream come, as arrays: the part of a primitive's rule on time that primitives share.

A stream is a sequence of values and stops, every closing spelled out: `Sk` closes exactly the `k`th dim, counted from 1
at the innermost, and the last token closes the outermost. Times are in cycles, or in ticks of another stream; those of
one stream never decrease.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Bits: TypeAlias = NDArray[np.bool_]


class Tokens(NamedTuple):
    """A stream's tokens: 0 for a value and `k` for the stop `Sk`, and the time of each."""

    levels: Ints
    times: Ints

    @property
    def values(self) -> Ints:
        """The times of the values."""
        found: Ints = self.times[self.levels == 0]
        return found

    @property
    def end(self) -> int:
        """The time at which the stream ends."""
        return int(self.times[-1])


class Pace(NamedTuple):
    """The inputs of a primitive's rule on time.

    Attributes:
        sizes: The size of every dim, routed ones included.
        cycles: What one call of its function takes.
        step: The least time between two values that it emits by itself, as Repeat does.
        chosen: Which streams each index element chooses, `(elements, streams)`; None if that is not known: then every
            element chooses each stream that has slices left.
        lanes: Values that Streamify emits in one step.
    """

    sizes: Mapping[str, int]
    cycles: int = 0
    step: int = 1
    chosen: Bits | None = None
    lanes: int = 1


class Schedule(NamedTuple):
    """The tokens that a primitive emits, and for each operand the times at which its values are taken.

    `taken` is empty for a primitive of one operand, which takes a value as soon as it can.
    """

    outputs: tuple[Tokens, ...]
    taken: tuple[Ints, ...] = ()


@lru_cache(maxsize=1024)
def spelled(shape: tuple[int, ...]) -> Ints:
    """The levels of an item with these dims, outermost first; its last token closes the outermost one."""
    levels: Ints = np.zeros(1, np.int64)
    for level, size in enumerate(reversed(shape), 1):
        levels = np.append(np.tile(levels, size), level)
    levels.flags.writeable = False
    return levels


def latest(times: Ints) -> Ints:
    """The running maximum."""
    running: Ints = np.maximum.accumulate(times)
    return running


def served(ready: Ints, costs: Ints) -> Ints:
    """When each is done if they are served one by one: `max(ready, previous done) + cost`."""
    total = np.cumsum(costs)
    return total + latest(ready - total + costs)


def spaced(ready: Ints, levels: Ints, step: int) -> Ints:
    """When each token is emitted: as soon as it is ready, and a value not until `step` after the token before it."""
    if not step:
        return latest(ready)
    total = np.cumsum(levels == 0) * step
    return total + latest(ready - total)


def called(tokens: Tokens, cycles: int) -> Ints:
    """When a function is done with each value; stops wait for the values before them."""
    return served(tokens.times, (tokens.levels == 0) * cycles) if cycles else tokens.times


def joined(operands: Sequence[Tokens]) -> Tokens:
    """Tokens side by side, each as soon as all are there."""
    times = operands[0].times
    for operand in operands[1:]:
        times = np.maximum(times, operand.times)
    return Tokens(operands[0].levels, times)


def kept_above(levels: Ints, times: Ints, level: int) -> Tokens:
    """The stops from `level` on, which lose so many levels, as in a stream whose inner dims are reduced."""
    above = levels >= level
    return Tokens(levels[above] - level, times[above])


def inserted(tokens: Tokens, after: Bits, level: int) -> Tokens:
    """The tokens with the stop `S<level>` after some of them, at the same time."""
    places = np.flatnonzero(after) + 1
    return Tokens(np.insert(tokens.levels, places, level), np.insert(tokens.times, places, tokens.times[places - 1]))


def expanded(tokens: Tokens, item: Ints, gain: int, step: int, lanes: int = 1) -> Tokens:
    """The tokens with an item of some levels in place of each value, `lanes` values a step; stops gain levels."""
    value = tokens.levels == 0
    counts = np.where(value, len(item), 1)
    levels = np.repeat(tokens.levels + gain, counts)
    inside = np.repeat(value, counts)
    levels[inside] = np.tile(item, int(value.sum()))
    costs = np.zeros_like(levels)
    costs[inside] = np.tile(step * ((item == 0) & (np.cumsum(item == 0) % lanes == 1 % lanes)), int(value.sum()))
    total, ready = np.cumsum(costs), np.repeat(tokens.times, counts)
    return Tokens(levels, total + latest(ready - total))


def held(data: Tokens, other: Tokens, ends: Bits) -> tuple[Ints, Ints]:
    """A block of `other` for each token of `data`, the blocks ending where `ends` is set.

    Returns:
        When each token of `other` can be used, together with the one of `data` that it belongs to; and when each value
        of `data` is taken, which is when its block's first token is used.
    """
    block: Ints = np.cumsum(ends) - ends
    times = latest(np.maximum(other.times, data.times[np.minimum(block, len(data.times) - 1)]))
    first = np.append(0, np.flatnonzero(ends)[:-1] + 1)
    return times, times[first][data.levels == 0]
