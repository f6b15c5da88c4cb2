"""Fits the network by which beam searches rank drafts of one length (`draft_ranking`) to tasks whose `impl` is known.

A draft is right if the oracle has the values of all its streams (`lost_drafts`). Searches are run in which the best
right draft of each length is kept, whatever its rank. A softmax over the drafts of each length, by their scores and
what the network adds, is to prefer the right ones. Each task counts by the root of its lengths. With `--folds`,
networks that are fitted to the other tasks rank those of each fold, and how often a right draft is among the best is
printed.

How to run: python -m benchmarks.fit_ranking TASK.yaml ... --out draft_ranking.json [--samples 4] [--folds 5]
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.lost_drafts import Right, Task
from benchmarks.proposing import Desk
from pipeline.lms.embedded import engine_named
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.strong import beam_search, strong_proposer
from pipeline.lms.embedded.strong.beam_search import BeamSearch
from pipeline.lms.embedded.strong.draft_properties import UNIT
from pipeline.lms.embedded.strong.draft_ranking import DraftRanking
from pipeline.lms.embedded.strong.levels import Child, Levels
from pipeline.lms.embedded.strong.strong_proposer import Effort

_MOST = 90
"""The number of drafts of one length that are compared."""
_UNITS = 32
_DROPPED = 0.2
_WITHIN = 6.0
"""Properties count up to this many standard deviations."""
_EPOCHS, _BATCH, _RATE = 12, 64, 0.01
_DECAY, _DECAY_DIRECT = 1.0, 0.3
_FINE = 1 << 14
"""Weights are multiples of this part of 1."""


class Length(NamedTuple):
    """The drafts of one length of a search.

    Attributes:
        task: The task's file.
        kept: How many of them the search keeps.
        scores: The score of each.
        right: Which ones are right.
        properties: Of shape (drafts, properties), in parts of 1.
    """

    task: str
    kept: int
    scores: NDArray[np.float32]
    right: NDArray[np.bool_]
    properties: NDArray[np.int32]


class FollowedLevels(Levels):
    """Levels that remember what is offered while it is ranked."""

    offered: ClassVar[Sequence[Child]] = ()

    def _best(self, children: Sequence[Child], length: int, width: int) -> list[Child]:
        FollowedLevels.offered = children
        return super()._best(children, length, width)


class FollowedRanking(DraftRanking):
    """A ranking that keeps a right draft of each length, and records all that it ranks."""

    right: ClassVar[Right]
    found: ClassVar[list[Length]] = []
    task: ClassVar[str] = ""

    def best(self, found: Sequence[tuple[float, Child]], length: int, width: int) -> list[Child]:
        """As in `DraftRanking`."""
        pool = self._properties.pool
        good = {_key(child): child for child in FollowedLevels.offered if self._right(child)}
        pairs = list(found)
        if good and not any(_key(child) in good for _, child in pairs):
            for child in good.values():
                for stream in child.fresh:
                    pool.settle(stream)
            best = max(good.values(), key=lambda child: child.promise(pool))
            pairs.append((best.promise(pool), best))
        ranked = self.ranked(pairs, length)
        kept = [child for _, child in ranked[:width]]
        if good and not any(_key(child) in good for child in kept):
            kept.append(next(child for _, child in ranked if _key(child) in good))
        right = np.array([_key(child) in good for _, child in ranked])
        if right.any() and not right.all():
            ranked.sort(key=lambda pair: -pair[0])
            right = np.array([_key(child) in good for _, child in ranked])
            scores = np.array([score for score, _ in ranked], np.float32)
            properties = self._properties.matrix(length, ranked).astype(np.int32)
            self.found.append(Length(self.task, width, scores, right, properties))
        return kept

    def _right(self, child: Child) -> bool:
        """Whether a draft has right streams only, and more than its parent."""
        before, fresh = self.right.covered(child.parent.streams), self.right.covered(child.fresh)
        return before is not None and fresh is not None and not fresh <= before


def _key(child: Child) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return child.parent.streams, child.fresh


@cache
def _desk() -> Desk:
    torch.set_num_threads(1)
    return Desk(engine_named("embedded"))


def lengths_of(path: Path, oracles: Path | None, samples: range) -> list[Length]:
    """The drafts of all lengths of some searches of one task."""
    task = Task(path, _desk(), oracles)
    FollowedRanking.found, FollowedRanking.task = [], str(path)

    class Search(BeamSearch):
        """A search whose right drafts are known."""

        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            FollowedRanking.right = Right(self, task.oracle, task.backend)

    for seed in samples:
        sample = strong_proposer._Sample(task.view, task.learned, SeededChoice(seed, 1.0), Effort())
        with (
            mock.patch.object(strong_proposer, "BeamSearch", Search),
            mock.patch.object(beam_search, "Levels", FollowedLevels),
            mock.patch.object(beam_search, "DraftRanking", FollowedRanking),
        ):
            sample._search_widely()
    return FollowedRanking.found


# --- fitting ---


class Examples:
    """Lengths as tensors, padded to the same number of drafts; indices choose some of them."""

    def __init__(self, lengths: Sequence[Length]) -> None:
        counts, shape = Counter(one.task for one in lengths), (len(lengths), _MOST)
        self.scores = torch.full(shape, -1e9)
        self.right = torch.zeros(shape, dtype=torch.bool)
        self.properties = torch.zeros(*shape, lengths[0].properties.shape[1])
        self.weights = torch.tensor([counts[one.task] ** -0.5 for one in lengths])
        self.kept = torch.tensor([one.kept for one in lengths])
        for place, one in enumerate(lengths):
            first, good = np.arange(len(one.right))[: _MOST - 10], np.flatnonzero(one.right)[:10]
            chosen = np.unique(np.concatenate((first, good)))
            self.scores[place, : len(chosen)] = torch.from_numpy(one.scores[chosen])
            self.right[place, : len(chosen)] = torch.from_numpy(one.right[chosen])
            self.properties[place, : len(chosen)] = torch.from_numpy(one.properties[chosen].astype(np.float32)) / UNIT

    @property
    def there(self) -> torch.Tensor:
        """Which drafts are not padding."""
        return self.scores > -1e8

    def ranked(self, net: Net, some: torch.Tensor) -> torch.Tensor:
        """The scores of drafts with what a network adds."""
        added: torch.Tensor = net(self.properties[some]) * self.there[some]
        return self.scores[some] + added

    def loss(self, net: Net, some: torch.Tensor) -> torch.Tensor:
        """How unlikely right drafts are, on average."""
        scores = self.ranked(net, some)
        likely = torch.logsumexp(scores.masked_fill(~self.right[some], -1e9), 1) - torch.logsumexp(scores, 1)
        loss: torch.Tensor = -(likely * self.weights[some]).sum() / self.weights[some].sum()
        return loss


class Net(torch.nn.Module):
    """The network, in floating-point numbers; `spread` are the standard deviations of properties."""

    def __init__(self, spread: torch.Tensor) -> None:
        super().__init__()
        self.spread = spread
        self.hidden = torch.nn.Linear(len(spread), _UNITS)
        self.outer = torch.nn.Linear(_UNITS, 1, bias=False)
        self.direct = torch.nn.Linear(len(spread), 1, bias=False)
        self.drop = torch.nn.Dropout(_DROPPED)
        torch.nn.init.zeros_(self.outer.weight)
        torch.nn.init.zeros_(self.direct.weight)

    def forward(self, properties: torch.Tensor) -> torch.Tensor:
        """What it adds to the score of each draft."""
        given = (properties / self.spread).clamp(-_WITHIN, _WITHIN)
        added: torch.Tensor = self.outer(self.drop(torch.relu(self.hidden(given)))) + self.direct(given)
        return added.squeeze(-1)

    def as_json(self) -> str:
        """Its weights as integers, as `draft_ranking.Network` reads them."""
        spread = self.spread.double()
        parts = {
            "limits": _WITHIN * spread * UNIT,
            "hidden": self.hidden.weight.double().T / spread[:, None] * _FINE,
            "bias": self.hidden.bias.double() * UNIT * _FINE,
            "outer": self.outer.weight.double()[0] * _FINE,
            "direct": self.direct.weight.double()[0] / spread * _FINE**2,
        }
        whole = {name: part.round().long().tolist() for name, part in parts.items()}
        return json.dumps({**whole, "unit": UNIT * _FINE**2}) + "\n"


def fitted(examples: Examples, some: torch.Tensor) -> Net:
    """A network fitted to some examples."""
    torch.manual_seed(0)
    rows = examples.properties[some][examples.there[some]]
    net = Net(rows.std(0) + 0.02)
    inner = [*net.hidden.parameters(), *net.outer.parameters()]
    groups = [
        {"params": inner, "weight_decay": _DECAY},
        {"params": list(net.direct.parameters()), "weight_decay": _DECAY_DIRECT},
    ]
    optimizer = torch.optim.AdamW(groups, lr=_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, _EPOCHS * (len(some) // _BATCH + 1))
    for _ in range(_EPOCHS):
        for batch in torch.split(some[torch.randperm(len(some))], _BATCH):
            optimizer.zero_grad()
            examples.loss(net, batch).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return net.eval()


def folds(lengths: Sequence[Length], count: int) -> Iterator[torch.Tensor]:
    """Which lengths belong to the tasks of each fold."""
    tasks = sorted({one.task for one in lengths})
    fold = {task: place % count for place, task in enumerate(np.random.RandomState(0).permutation(tasks))}
    numbers = torch.tensor([fold[one.task] for one in lengths])
    yield from (numbers == place for place in range(count))


@torch.no_grad()
def compared(examples: Examples, scores: torch.Tensor) -> str:
    """How often a right draft is the best one, among so many, and kept."""
    best = scores.masked_fill(~examples.right, -1e9).max(1, keepdim=True).values
    ranks = ((scores > best) & ~examples.right & examples.there).sum(1)
    weights = examples.weights / examples.weights.sum()
    shares = [f"{((ranks < most) * weights).sum():.3f} among {most}" for most in (1, 5, 10, 20)]
    return ", ".join([*shares, f"{((ranks < examples.kept) * weights).sum():.4f} kept"])


def main(arguments: list[str] | None = None) -> int:
    """Collects drafts, prints how well they are ranked, and writes a network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", type=Path, help="task files with an impl")
    parser.add_argument("--oracles", type=Path, help="a folder with TASK.step for tasks without an impl")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first sample")
    parser.add_argument("--drafts", type=Path, nargs="*", default=[], help="drafts that were collected before")
    parser.add_argument("--keep", type=Path, help="where the collected drafts are kept")
    parser.add_argument("--folds", type=int, default=0)
    parser.add_argument("--out", type=Path, help="the network's file")
    options = parser.parse_args(arguments)
    lengths: list[Length] = []
    with get_context("spawn").Pool(maxtasksperchild=8) as workers:
        seeds = range(options.first, options.first + options.samples)
        collect = partial(lengths_of, oracles=options.oracles, samples=seeds)
        for path, found in zip(options.tasks, workers.imap(collect, options.tasks), strict=True):
            print(f"{path.stem}: {len(found)} lengths", flush=True)
            lengths += found
    if options.keep:
        options.keep.write_bytes(pickle.dumps(lengths))
    for path in options.drafts:
        lengths += pickle.loads(path.read_bytes())
    examples, every = Examples(lengths), torch.arange(len(lengths))
    print(f"{len(lengths)} lengths of {len({one.task for one in lengths})} tasks")
    if options.folds:
        scores = examples.scores.clone()
        for own in folds(lengths, options.folds):
            net = fitted(examples, every[~own])
            with torch.no_grad():
                scores[own] = examples.ranked(net, every[own])
        print(f"by their scores: {compared(examples, examples.scores)}")
        print(f"with a network fitted to other tasks: {compared(examples, scores)}")
    if options.out:
        options.out.write_text(fitted(examples, every).as_json(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
