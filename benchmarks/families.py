"""A learning curve on tasks in families: what nothing, a run's own solutions and other families' oracles are worth.

Tasks are those of `python -m benchmarks.generated_tasks --families 26 --count 4`. In each iteration the embedded LM
samples every unsolved task. `nothing` shows nothing; `own` the solutions so far, whatever their family; `others` the
oracles of all other families, so that no task is shown one of its own. With `--relevant`, only the two most relevant of
these are shown, and none below a relevance of 0.4. Differences are in solved tasks, paired, with 95 % intervals over
families. With `--prompt bare` the instructions have no examples, which the embedded LM would read.

How to run: python -m benchmarks.families FOLDER --prompt bare -o experiments/families/bare.json (some ten minutes)
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from benchmarks.proposing import Desk, Judge
from optimizers.strategies import LEAST_RELEVANCE, MOST_RELEVANT
from pipeline.agent.domain import code_length
from pipeline.languages import registry
from pipeline.lms.embedded import EmbeddedEngine
from pipeline.lms.embedded.answering import EmbeddedRequest, answer
from step_runtime.tasks.task import Task
from step_runtime.verification.loading import load_task

ARMS = ("nothing", "own", "others")
HEAT = 0.7
Solved = tuple[Task, str]


def family(name: str) -> str:
    """The family of a task of a name."""
    return name.partition("/")[0]


class Curve:
    """Samples tasks in iterations."""

    def __init__(self, oracles: Mapping[str, Solved], desk: Desk, options: argparse.Namespace) -> None:
        self._oracles, self._desk, self._judge = oracles, desk, Judge()
        self._samples, self._dial, self._seed = options.samples, options.dial, options.seed
        self._relevant = options.relevant

    def run(self, arm: str, iterations: int) -> list[list[str]]:
        """The tasks that are solved after each iteration."""
        solved, points = dict[str, Solved](), list[list[str]]()
        for iteration in range(iterations):
            known = dict(solved)
            for name, (task, _) in self._oracles.items():
                if name in solved:
                    continue
                shown = list(known.values()) if arm == "own" else []
                if arm == "others":
                    shown = [each for other, each in self._oracles.items() if family(other) != family(name)]
                if self._relevant:
                    shown = most_relevant(task, shown)
                if right := self._right(task, shown, iteration):
                    solved[name] = task, min(right, key=code_length)
            points.append(sorted(solved))
            print(f"{arm} {iteration + 1}: {len(solved)} of {len(self._oracles)}", file=sys.stderr, flush=True)
        return points

    def _right(self, task: Task, shown: Sequence[Solved], iteration: int) -> list[str]:
        prompt = self._desk.prompt(task, shown)
        messages, right = tuple((part.role, part.text or "") for part in prompt.messages), list[str]()
        for sample in range(self._samples):
            seed = (self._seed * 1000 + iteration) * 1000 + sample
            text = self._desk.program(answer(self._dial, EmbeddedRequest(prompt.system, messages, seed, HEAT)))
            if text is not None and self._judge.passes(task, text):
                right.append(text)
        return right


def most_relevant(task: Task, among: Sequence[Solved]) -> list[Solved]:
    """Two at most, the most relevant last."""
    weighed = [(registry.find(None).relevance(task, *each), place) for place, each in enumerate(among)]
    best = sorted((each for each in weighed if each[0] >= LEAST_RELEVANCE), reverse=True)[:MOST_RELEVANT]
    return [among[place] for _, place in reversed(best)]


def interval(differences: Mapping[str, float], resamples: int = 4000) -> tuple[float, float]:
    """The 95 % bootstrap interval of a sum of differences by task, drawn by family."""
    groups: dict[str, float] = {}
    for name, value in differences.items():
        groups[family(name)] = groups.get(family(name), 0.0) + value
    rng, values = random.Random(0), [*groups.values()]
    sums = sorted(sum(rng.choices(values, k=len(values))) for _ in range(resamples))
    return sums[int(0.025 * resamples)], sums[int(0.975 * resamples) - 1]


def main() -> None:
    """Runs, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--prompt", choices=("full", "short", "bare"), default="full")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--dial", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--relevant", action="store_true")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    paths = sorted(options.folder.rglob("*.yaml"))
    names = [path.relative_to(options.folder).with_suffix("").as_posix() for path in paths]
    oracles = {
        name: (load_task(path).named(name), path.with_suffix(".step").read_text())
        for name, path in zip(names, paths, strict=True)
    }
    curve = Curve(oracles, Desk(EmbeddedEngine(), options.prompt), options)
    points = {arm: curve.run(arm, options.iterations) for arm in ARMS}
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps({"settings": vars(options), "solved": points}, default=str) + "\n")
    for arm, each in points.items():
        line = f"{arm:8}" + "".join(f"{len(solved):5}" for solved in each)
        for place in (0, -1):
            more = {name: float((name in each[place]) - (name in points["nothing"][place])) for name in names}
            low, high = interval(more)
            line += f"   {sum(more.values()):+.0f} [{low:+.0f}, {high:+.0f}]"
        print(line)


if __name__ == "__main__":
    main()
