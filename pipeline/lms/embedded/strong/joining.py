"""Moves of a beam search that do not exclude each other, made at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from pipeline.lms.embedded.strong.levels import Child, State
from pipeline.lms.embedded.strong.stream_pool import NEEDED, StreamPool


class Joined(NamedTuple):
    """Several moves from one draft.

    Attributes:
        parent: The draft.
        fresh: The streams that it gets.
        own: The part of their score that the streams themselves do not have.
        ranked: What the first of the drafts with one of them was ranked by.
    """

    parent: State
    fresh: tuple[int, ...]
    own: float
    ranked: float


def joined(pool: StreamPool, children: Sequence[Child]) -> list[Joined]:
    """For each draft all the values of the reference that it needs and that one more move gives, if there are several.

    A right program computes them in some order, which then need not be found.
    """
    groups = defaultdict[tuple[int, ...], list[Child]](list)
    for child in children if pool.needs is not None else ():
        if not (child.replayed or child.replaced or all(child.applied)):
            groups[child.parent.streams].append(child)
    found = []
    for streams, group in groups.items():
        own, together = 0.0, streams
        for child in group:
            if pool.gives(together, child.fresh):
                own, together = own + child.own, (*together, *child.fresh)
        fresh = together[len(streams) :]
        if len(fresh) > 1:
            found.append(Joined(group[0].parent, fresh, own + NEEDED * (len(fresh) - 1), group[0].ranked))
    return found
