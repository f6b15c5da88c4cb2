"""Where the embedded proposer loses the right program, for tasks whose `impl` is known.

The oracle is followed function by function. Two streams are the same if they hold the same values on one input,
repetitions aside, so a draft may reach them by other structural primitives. A sample is `right`; or it finished a right
draft and chose another (`not chosen`); or its beam search lost all drafts that consist of right streams (`lost`), at
the function named: because no state offered it (`not offered`) or because others ranked better (`outranked`, with the
score that it lacked); or it ended before (`steps used up`, `no beam search`). An oracle whose functions no move can
apply is `inexpressible`. For each function of the oracle, the score of its move is printed against the best rival's on
the same operands, with the terms of its dependences.

How to run: python -m benchmarks.lost_drafts TASK.yaml ... [--samples 8] [--moves]
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple
from unittest import mock

import torch

from benchmarks.oracle_values import Oracle, Step, Stream, ValueBackend
from benchmarks.proposing import Desk, Judge
from pipeline.lms.embedded import engine_named
from pipeline.lms.embedded.draft import Routing
from pipeline.lms.embedded.lowering import tidy
from pipeline.lms.embedded.operands import Callee, Operands
from pipeline.lms.embedded.prompt.parsing import solved_examples
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong import beam_search, strong_proposer
from pipeline.lms.embedded.strong.beam_search import BeamSearch
from pipeline.lms.embedded.strong.levels import Child, Levels, Ranking, State
from pipeline.lms.embedded.strong.stream_pool import StreamPool
from pipeline.lms.embedded.strong.strong_proposer import Effort, learned_for
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.base.errors import StepError
from step_runtime.program.printer import print_program
from step_runtime.verification.instance import instances
from step_runtime.verification.loading import load_task


class Right:
    """Which streams of a beam search's pool are right."""

    def __init__(self, search: BeamSearch, oracle: Oracle, backend: ValueBackend) -> None:
        self._search = search
        self._oracle = oracle
        self._backend = backend
        self._streams: dict[int, Stream | None] = dict(enumerate(backend.inputs()))
        self.numbers: dict[int, int] = {place: oracle.number(s) for place, s in self._streams.items() if s}

    def number(self, stream: int) -> int:
        """The content of a stream of the pool; -1 for one that the oracle does not have, or of such a one."""
        if stream not in self.numbers:
            move = self._search._pool.move(stream)
            self.numbers[stream] = -1
            if all(self.number(source) >= 0 for source in move.sources):
                sources = [self._streams[source] for source in move.sources]
                try:
                    made = self._backend.moved(move, [source for source in sources if source is not None])
                except StepError:
                    return -1
                self._streams[stream] = made
                self.numbers[stream] = self._oracle.number(made)
        return self.numbers[stream]

    def covered(self, streams: Sequence[int]) -> frozenset[int] | None:
        """The contents of a draft; None if one of its streams is wrong."""
        found = [self.number(stream) for stream in streams]
        return None if -1 in found else frozenset(found)


class Forced(NamedTuple):
    """A step of the oracle as a move of the proposer, with its score and the best rival's on these operands."""

    step: Step
    stream: int
    score: float
    rank: int
    best: float
    fits: tuple[float, float]


class Follower:
    """Makes the oracle's moves in the pool of a beam search of its own."""

    def __init__(self, view: TaskView, search: BeamSearch, oracle: Oracle, right: Right) -> None:
        self._view = view
        self._search = search
        self._oracle = oracle
        self._right = right
        self._held: dict[int, list[int]] = {}
        for stream, number in right.numbers.items():
            self._held.setdefault(number, []).append(stream)
        self.found: list[Forced] = []
        self.missing: list[Step] = []

    def follow(self) -> None:
        """Fills `found` and `missing`."""
        for step in self._oracle.steps:
            forced = self._forced(step)
            if forced is None:
                self.missing.append(step)
            else:
                self.found.append(forced)

    def _forced(self, step: Step) -> Forced | None:
        best: Forced | None = None
        for callee, routing, operands in self._choices(step):
            pool = self._search._pool
            streams = self._search._applications(callee, routing, operands)
            scores = {stream: pool.scores[stream] + self._search._lifting_score(stream) for stream in streams}
            ranked = sorted(streams, key=lambda stream: -scores[stream])
            for rank, stream in enumerate(ranked):
                if self._right.number(stream) != step.content:
                    continue
                held = self._held.setdefault(step.content, [])
                if stream not in held:
                    held.append(stream)
                pool.settle(stream)
                before = min(pool._fits[source] for source in pool.move(stream).sources)
                way = Forced(step, stream, pool.scores[stream], rank, scores[ranked[0]], (before, pool._fits[stream]))
                if best is None or way.score > best.score:
                    best = way
        return best

    def _choices(self, step: Step) -> Iterator[tuple[Callee, Routing | None, Operands]]:
        label = step.label.partition("(")[2].rstrip(")")
        routed = step.label.startswith("Merge")
        callees = self._view.callees_given(self._view.routings, also_alone=True)
        for callee, routing in callees:
            if callee.fn.label != label or (routing is not None) != routed:
                continue
            held = [self._held.get(number, ())[:4] for number in step.sources]
            for sources in itertools.islice(itertools.product(*held), 64):
                operands = self._search._operands.serving(callee, sources)
                if operands is not None:
                    yield callee, routing, operands


class TracedLevels(Levels):
    """Levels that remember what was offered and what was kept."""

    last: TracedLevels

    def __init__(self, pool: StreamPool, rival: float, ranking: Ranking | None = None) -> None:
        super().__init__(pool, rival, ranking)
        self.offered: dict[int, dict[frozenset[int], float]] = {}
        self.kept: dict[int, list[frozenset[int]]] = {}
        TracedLevels.last = self

    def best(self, length: int, width: int) -> list[Child]:
        """As in `Levels`; what is not settled then promises less than what is kept."""
        offered = self._levels.get(length, [])
        children = super().best(length, width)
        promises = self.offered[length] = {}
        for child in offered:
            streams, promise = _streams(child), child.promise(self._pool)
            promises[streams] = max(promise, promises.get(streams, promise))
        self.kept[length] = list(map(_streams, children))
        return children


def _streams(child: Child) -> frozenset[int]:
    return frozenset((*child.parent.streams, *child.fresh))


class TracedSearch(BeamSearch):
    """A beam search that can be looked at when it has ended."""

    runs: ClassVar[list[TracedSearch]] = []

    def run(self) -> None:
        """As in `BeamSearch`."""
        TracedSearch.runs.append(self)
        super().run()


class Loss(NamedTuple):
    """What became of a sample: the kind, and details."""

    kind: str
    details: str = ""


class Task:
    """One task, its oracle, and the samples that are traced."""

    def __init__(self, path: Path, desk: Desk, oracles: Path | None) -> None:
        self.task = load_task(path).named(path.stem)
        oracle = self.task.impl if oracles is None else (oracles / f"{path.stem}.step").read_text()
        if oracle is None:
            raise ValueError(f"{path}: the task has no impl to follow, and no folder of oracles is given")
        prompt = desk.prompt(self.task, [])
        self.view = TaskView(self.task)
        self.learned = learned_for(self.view, (solved_examples(prompt.system), ()))
        self.backend = ValueBackend(instances(self.task)[0], self.view.divided)
        self.oracle = Oracle(oracle, self.backend)
        self._judge = Judge()

    def follow(self) -> tuple[Follower, BeamSearch]:
        """The oracle's moves."""
        choice = SeededChoice(0, 1.0)
        steps = StepLimit(10**12)
        search = BeamSearch(self.view, self.learned.edge_model, choice, steps, tuple(self.view.routings))
        follower = Follower(self.view, search, self.oracle, Right(search, self.oracle, self.backend))
        follower.follow()
        return follower, search

    def sample(self, seed: int) -> Loss:
        """What becomes of one sample."""
        TracedSearch.runs.clear()
        choice = SeededChoice(seed, 1.0)
        sample = strong_proposer._Sample(self.view, self.learned, choice, Effort())
        with (
            mock.patch.object(strong_proposer, "BeamSearch", TracedSearch),
            mock.patch.object(beam_search, "Levels", TracedLevels),
        ):
            text = sample.answer()
        if self._judge.passes(self.task, text):
            return Loss("right")
        used = sample._steps.used > sample._steps.most
        compared = any(found.worth is not None for found in sample._found)
        ranked = sorted(sample._found, key=lambda found: -found.score(strong_proposer._SIMILAR, compared=compared))
        for place, found in enumerate(ranked):
            if self._judge.passes(self.task, print_program(self.view.divided.written(tidy(found.program)))):
                best = ranked[0]
                parts = [
                    f"{name} {getattr(found, name):.2f}:{getattr(best, name):.2f}"
                    for name in ("habit", "fit", "similarity", "worth")
                    if None not in (getattr(found, name), getattr(best, name))
                ]
                return Loss("not chosen", f"rank {place + 1} of {len(ranked)}, {', '.join(parts)}")
        if not TracedSearch.runs:
            return Loss("no beam search", f"{len(ranked)} drafts{', steps used up' if used else ''}")
        return self._lost(TracedSearch.runs[-1], TracedLevels.last, used=used)

    def _lost(self, search: BeamSearch, levels: TracedLevels, *, used: bool) -> Loss:
        """Where a beam search lost the drafts that consist of right streams."""
        right = Right(search, self.oracle, self.backend)
        last, whole = 0, len(self.oracle.contents)
        good = frozenset(range(search._pool.first))
        for length in sorted(levels.kept):
            found = [streams for streams in levels.kept[length] if right.covered(sorted(streams)) is not None]
            if found:
                last = length
                good = max(found, key=lambda streams: len(right.covered(sorted(streams)) or ()))
        covered = right.covered(sorted(good)) or frozenset()
        missing = [step for step in self.oracle.steps if step.content not in covered]
        done = f"{len(covered) - search._pool.first}/{whole - search._pool.first} functions"
        if not missing:
            return Loss("complete but not finished", done)
        following = levels.offered.keys() - {length for length in levels.offered if length <= last}
        if not following and used:
            return Loss("steps used up", done)
        open_ = [step for step in missing if covered.issuperset(step.sources)]
        names = " | ".join(step.label for step in open_)
        best = self._outranked(search, levels, right, last)
        if best is not None:
            return Loss("outranked", f"{done}, then {best}")
        return Loss("not offered", f"{done}, then {names}")

    def _outranked(self, search: BeamSearch, levels: TracedLevels, right: Right, last: int) -> str | None:
        """The best right draft that was offered and not kept, and what it lacked."""
        for length in sorted(length for length in levels.offered if length > last):
            offered, kept = levels.offered[length], levels.kept.get(length, [])
            good = [
                (promise, s) for streams, promise in offered.items() if right.covered(s := sorted(streams)) is not None
            ]
            if good and kept:
                promise, streams = max(good)
                newest = search._pool.move(streams[-1])
                worst = min(offered.get(state, 0.0) for state in kept)
                rank = sum(other > promise for other in offered.values()) + 1
                name = next(newest.functions()).label
                return f"{name} at rank {rank} of {len(offered)}, {promise - worst:+.1f} against the worst kept"
        return None


def show_moves(follower: Follower, search: BeamSearch) -> None:
    """Prints each step of the oracle as a move."""
    for forced in follower.found:
        before, after = forced.fits
        misfit = f", dependences {before:.2f} > {after:.2f}" if after < before else ""
        print(
            f"    {forced.step.label:32} {forced.step.shape:36} score {forced.score:6.1f}, best on these operands"
            f" {forced.best:6.1f}, rank {forced.rank + 1}{misfit}"
        )
    needed = set(range(search._pool.first)) | {forced.stream for forced in follower.found}
    for stream in range(len(search._pool.scores) - 1, search._pool.first - 1, -1):
        needed |= set(search._pool.move(stream).sources) if stream in needed else set()
    streams = sorted(needed)
    state = State(tuple(streams), frozenset(), (), 0.0)
    similarity = search._finish(state)
    print(f"    similarity of the whole {similarity:.3f}{'' if search.finished else ' (does not give the outputs)'}")


def report(task: Task, samples: int, *, moves: bool) -> None:
    """Prints what becomes of the samples of one task."""
    follower, search = task.follow()
    losses = [task.sample(seed) for seed in range(samples)]
    kinds = Counter(loss.kind for loss in losses)
    print(f"{task.task.name}: " + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
    for step in follower.missing:
        print(f"    inexpressible: {step.label} on {step.sources} to {step.shape}")
    for loss, count in Counter(losses).most_common():
        if loss.details:
            print(f"    {count} {loss.kind}: {loss.details}")
    if moves:
        show_moves(follower, search)
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """Prints what becomes of the samples of each task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+", type=Path, help="task files with an impl")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--oracles", type=Path, help="a folder with TASK.step for tasks without an impl")
    parser.add_argument("--moves", action="store_true", help="print the oracle as the proposer's moves")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    desk = Desk(engine_named("embedded"))
    for path in options.tasks:
        report(Task(path, desk, options.oracles), options.samples, moves=options.moves)
    return 0


if __name__ == "__main__":
    sys.exit(main())
