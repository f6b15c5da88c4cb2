"""Ranks drafts of one length by a small network over their properties, beside their scores.

Scores are sums, as a beam search needs bounds of them before all is known of a draft. What properties say together, the
network adds for the drafts that are about to be kept. It computes with integers, so that ranks are the same anywhere.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple

import numpy as np

from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.draft_properties import DraftProperties, Vector
from pipeline.lms.embedded.strong.levels import Child

WEIGHTS = "draft_ranking.json"
_RANKED = 20
"""Steps that ranking a draft counts for."""
_BY_SCORE = 0.3
"""The part of the drafts that are kept for their scores alone: a task may be unlike those of the fit."""


class Network(NamedTuple):
    """A network of one hidden layer, over properties within limits, with direct connections beside it.

    Attributes:
        limits: The largest amount of each property that counts.
        hidden: The weights of the properties for each hidden unit, of shape (properties, units), and
        bias: what each unit gets beside.
        outer: The weights of the hidden units for the result.
        direct: The weights of the properties for it.
        unit: How many of the result's units are 1.
    """

    limits: Vector
    hidden: Vector
    bias: Vector
    outer: Vector
    direct: Vector
    unit: int

    @classmethod
    def from_json(cls, text: str) -> Network:
        """The network whose weights a JSON text has."""
        parts = json.loads(text)
        limits, hidden, bias, outer, direct = (np.array(parts[name], np.int64) for name in cls._fields[:-1])
        return cls(limits, hidden, bias, outer, direct, parts["unit"])

    def scores(self, properties: Vector) -> list[float]:
        """What is added to the score of each draft, by its properties: of shape (drafts, properties)."""
        given = np.clip(properties, -self.limits, self.limits)
        units = np.maximum(given @ self.hidden + self.bias, 0)
        return [score / self.unit for score in (units @ self.outer + given @ self.direct).tolist()]


@cache
def network() -> Network:
    """The network that comes with the proposer (`benchmarks/fit_ranking`)."""
    return Network.from_json(resources.files(__package__).joinpath(WEIGHTS).read_text("utf-8"))


class DraftRanking:
    """Ranks the drafts of one search."""

    def __init__(self, properties: DraftProperties, steps: StepLimit) -> None:
        self._properties = properties
        self._steps = steps

    def best(self, found: Sequence[tuple[float, Child]], length: int, width: int) -> list[Child]:
        """The best `width` of some drafts of a length, best first, some of which have the best scores.

        Each is given with its score.

        Raises:
            StepsExhausted: The sample has used all its steps.
        """
        ranked = self.ranked(found, length)
        sure = set(map(id, heapq.nlargest(int(width * _BY_SCORE), ranked, key=_score)))
        others = [pair for pair in ranked if id(pair) not in sure][: width - len(sure)]
        kept = sure.union(map(id, others))
        return [pair[1] for pair in ranked if id(pair) in kept]

    def ranked(self, found: Sequence[tuple[float, Child]], length: int) -> list[tuple[float, Child]]:
        """As `best`, all of them, each with its score in which its parent's rank does not count.

        Raises:
            StepsExhausted: The sample has used all its steps.
        """
        if not found:
            return []
        self._steps.spend(_RANKED * len(found))
        own = heapq.nlargest(len(found), ((score - child.parent.ranked, child) for score, child in found), key=_score)
        added = network().scores(self._properties.matrix(length, own))
        most = max(added)  # Only the differences between drafts of one kind say something.
        ranked = [(score, child._replace(ranked=more - most)) for (score, child), more in zip(own, added, strict=True)]
        return heapq.nlargest(len(ranked), ranked, key=lambda pair: pair[0] + pair[1].ranked)


def _score(pair: tuple[float, Child]) -> float:
    return pair[0]
