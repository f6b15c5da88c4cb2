"""Does learning learn? The embedded proposers on tasks, under different selections of demonstrations.

Every run has the same budget: a number of iterations, each with a number of samples at one temperature for every task
that is still unsolved. After the first iteration, which has no demonstrations, they come from the run's own solved
tasks (one answer each, by the filter function), and only their selection differs:

    none            no demonstrations
    everything      all solved tasks, which is adaptive with one level (m = 1)
    adaptive-m      levels of difficulty: the hardest, then the hardest two, …; starting over once something is solved
    hard-first      the hardest half, by rank
    easy-first      as adaptive-3, from the easiest level on
    random          as many as adaptive-3 would take, at random
    bootstrap       DSPy's: instead of the first iteration it finds four solutions, which all later iterations show

It samples through the engine (see `proposing`) and uses the optimizer's own strategies and filter;
unlike the optimizer it continues when a cycle ends, so that budgets are equal. Selections share the samples of one seed
as long as they show the same demonstrations, so that differences are paired.

Transfer: for each seed two of the eight groups are set aside; adaptive-3 learns on the other six; then what each
selection would show first of what was learned is shown on the two groups, and on data/tasks-extra.

How to run: python -m benchmarks.learning -o experiments/learning/NAME
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import random
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import torch

from benchmarks.bootstrapping import bootstrap
from benchmarks.comparing import FIGURES, Curve, Point, Runs, compare, plot, table
from benchmarks.proposing import Desk, Judge, tasks_in
from optimizers import Entry, TokenCount
from optimizers.filtering import choose_answer
from optimizers.strategies.adaptive import Adaptive
from optimizers.strategies.easy_first import EasyFirst
from optimizers.strategies.everything import Everything
from optimizers.strategies.hard_first import HardFirst
from optimizers.strategies.random_choice import RandomChoice
from pipeline.agent.domain import code_length
from pipeline.lms.embedded import EmbeddedEngine, StrongProposer, engine_named
from pipeline.lms.embedded.strong.strong_proposer import Effort
from step_runtime.language.equivalence import canonical_key
from step_runtime.tasks.task import Task

ROUNDS = 8
"""Tries of DSPy's bootstrap at a task, as in `optimizers.baselines`."""


@dataclass(frozen=True)
class Setting:
    """An LM and the budget of a run."""

    lm: str
    samples: int
    iterations: int
    reads: bool = True
    """Whether the strong proposer may read the reference."""
    temperature: float = 0.7

    def engine(self) -> EmbeddedEngine:
        """The LM."""
        return engine_named(self.lm) if self.reads else EmbeddedEngine(StrongProposer(Effort(following=0.0)))

    def words(self, seeds: int) -> str:
        """A description of the setting."""
        lm = self.lm if self.reads else f"{self.lm} without its reading of the reference"
        return (
            f"{lm}: {self.samples} samples a task and iteration,"
            f" {self.iterations} iterations, temperature {self.temperature}, {seeds} seeds"
        )


SETTINGS = {
    "small": Setting("embedded/small", samples=8, iterations=5),
    "strong": Setting("embedded", samples=4, iterations=2),
    "unread": Setting("embedded", samples=4, iterations=5, reads=False),
}


Select = Callable[[Sequence[Entry], random.Random], list[list[Entry]]]

SELECTIONS: dict[str, Select] = {
    "none": lambda entries, rng: [[]],
    "everything": Everything().order,
    "adaptive-2": Adaptive(2).order,
    "adaptive-3": Adaptive(3).order,
    "adaptive-4": Adaptive(4).order,
    "hard-first": HardFirst().order,
    "easy-first": EasyFirst(3).order,
    "random": RandomChoice(3).order,
}
BOOTSTRAP = "bootstrap"
TRANSFERRED = ("none", "everything", "adaptive-3", "random")


@dataclass
class Bench:
    """What runs share: the proposer, the verdicts, and the answers sampled with the same prompt and seed."""

    setting: Setting
    desk: Desk
    judge: Judge = field(default_factory=Judge)
    sampled: dict[tuple[object, ...], tuple[tuple[str, ...], int]] = field(default_factory=dict)

    def entry(self, task: Task, answer: str, successes: int, samples: int) -> Entry:
        """A task solved by so many of the samples."""
        temperature = self.setting.temperature
        return Entry(
            task_key=task.name or "",
            inputs={"task": task},
            outputs={"impl": answer},
            successes=successes,
            samples=samples,
            temperature=temperature,
            iteration=0,
            answer_temperature=temperature,
            answer_sample=0,
            tokens=TokenCount(),
        )

    def ask(self, task: Task, demos: Sequence[Entry], seed: int, iteration: int) -> tuple[tuple[str, ...], int]:
        """The correct answers among the samples of a task, and the prompt tokens of all."""
        shown = [(entry.inputs["task"], str(entry.outputs["impl"])) for entry in demos]
        key = (task.name, tuple((other.name, answer) for other, answer in shown), seed, iteration)
        if key not in self.sampled:
            prompt = self.desk.prompt(task, shown)
            correct, tokens = [], 0
            for number in range(self.setting.samples):
                digest = hashlib.sha256(f"{seed}/{iteration}/{number}".encode()).digest()
                sample = self.desk.sample(prompt, int.from_bytes(digest[:4], "big"), self.setting.temperature)
                tokens += sample.prompt_tokens
                if sample.program is not None and self.judge.passes(task, sample.program):
                    correct.append(sample.program)
            self.sampled[key] = (tuple(correct), tokens)
        return self.sampled[key]


class Run:
    """One run over some tasks, iteration by iteration: what is solved, and the curve so far."""

    def __init__(self, bench: Bench, tasks: Sequence[Task], seed: int) -> None:
        self._bench = bench
        self._tasks = tasks
        self._seed = seed
        self.entries: dict[str, Entry] = {}
        self.curve: Curve = []
        self._samples = self._tokens = 0

    def spend(self, samples: int, tokens: int, solved: dict[str, Entry]) -> None:
        """Ends an iteration."""
        self._samples, self._tokens = self._samples + samples, self._tokens + tokens
        self.entries |= solved
        rate = sum(entry.rate for entry in self.entries.values()) / len(self._tasks)
        self.curve.append(Point(self._samples, self._tokens, len(self.entries), rate))

    def iterate(self, demos: Sequence[Entry]) -> bool:
        """Samples every unsolved task with these demonstrations; returns whether any is solved."""
        found, spent, samples = {}, 0, self._bench.setting.samples
        unsolved = [task for task in self._tasks if task.name not in self.entries]
        for task in unsolved:
            answers, tokens = self._bench.ask(task, demos, self._seed, len(self.curve))
            spent += tokens
            if answers:
                rng = random.Random(f"{self._seed}/{task.name}")
                chosen = choose_answer(answers, canonical_key, code_length, rng)
                found[task.name or ""] = self._bench.entry(task, chosen, len(answers), samples)
        self.spend(samples * len(unsolved), spent, found)
        return bool(found)


def learn(bench: Bench, tasks: Sequence[Task], select: Select, seed: int) -> Run:
    """A complete run that shows its own solutions as demonstrations."""
    run, rng, level = Run(bench, tasks, seed), random.Random(seed), 0
    for iteration in range(bench.setting.iterations):
        levels = select(list(run.entries.values()), rng) if run.entries else [[]]
        solved = run.iterate(levels[level % len(levels)])
        level = 0 if solved or not iteration else level + 1
    return run


def learn_by_bootstrap(bench: Bench, tasks: Sequence[Task], seed: int) -> Run:
    """A complete run with the demonstrations that DSPy's bootstrap finds; the tasks that it solves count as solved."""
    setting, run = bench.setting, Run(bench, tasks, seed)
    found = bootstrap(setting.engine(), tasks, bench.judge, seed, ROUNDS, setting.temperature)
    entries = [bench.entry(task, answer, 1, tries) for task, answer, tries in found.solved]
    run.spend(found.samples, found.prompt_tokens, {entry.task_key: entry for entry in entries})
    for _ in range(setting.iterations - 1):
        run.iterate(entries)
    return run


def transfer(bench: Bench, tasks: Sequence[Task], seed: int) -> dict[str, dict[str, Curve]]:
    """Demonstrations learned on six groups, shown on the other two and on data/tasks-extra.

    By place (`others`, `extra`) and selection; each curve is one point.
    """
    groups = sorted({_group(task) for task in tasks})
    aside = random.Random(f"aside {seed}").sample(groups, 2)
    learned = learn(bench, [task for task in tasks if _group(task) not in aside], SELECTIONS["adaptive-3"], seed)
    places = {
        "others": [task for task in tasks if _group(task) in aside],
        "extra": tasks_in("tasks-extra"),
    }
    ends: dict[str, dict[str, Curve]] = {place: {} for place in places}
    for name, select in ((name, SELECTIONS[name]) for name in TRANSFERRED):
        demos = select(list(learned.entries.values()), random.Random(seed))[0]
        for place, held_out in places.items():
            run = Run(bench, held_out, seed)
            run.iterate(demos)
            ends[place][name] = run.curve
    return ends


def _group(task: Task) -> str:
    return (task.name or "").partition("/")[0]


# --- all seeds of one setting -----------------------------------------------------------------------------------------


@cache
def _bench(setting: Setting) -> Bench:
    torch.set_num_threads(1)
    return Bench(setting, Desk(setting.engine()))


def one_seed(setting: Setting, names: Sequence[str], transfers: bool, seed: int) -> dict[str, dict[str, Curve]]:
    """The curves of a seed by experiment (`learning` and the places of transfer) and by selection."""
    bench, start = _bench(setting), time.monotonic()
    tasks = tasks_in("tasks")
    curves = {name: learn(bench, tasks, SELECTIONS[name], seed).curve for name in names if name in SELECTIONS}
    if BOOTSTRAP in names:
        curves[BOOTSTRAP] = learn_by_bootstrap(bench, tasks, seed).curve
    found = {"learning": curves}
    if transfers:
        found |= transfer(bench, tasks, seed)
    bench.sampled.clear()
    ends = {selection: curve[-1].solved for selection, curve in curves.items()}
    print(f"seed {seed}: {ends}, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return found


def report(name: str, words: str, found: Sequence[dict[str, dict[str, Curve]]], output: Path | None) -> str:
    """The results as text; with an `output`, writes them, the curves and their plot."""
    parts = [f"## {words}"]
    for what in found[0]:
        runs: Runs = {selection: [seed[what][selection] for seed in found] for selection in found[0][what]}
        parts += [_TITLES[what], "\n".join(table(runs)), "```\n" + "\n".join(_compared(runs, what)) + "\n```"]
        if output is not None and what == "learning":
            plot(runs, output.with_name(f"{output.name}-{name}.png"), words)
    text = "\n\n".join(parts) + "\n"
    if output is not None:
        output.with_name(f"{output.name}-{name}.md").write_text(text)
        points = [
            {
                what: {one: [asdict(point) for point in curve] for one, curve in runs.items()}
                for what, runs in seed.items()
            }
            for seed in found
        ]
        output.with_name(f"{output.name}-{name}.json").write_text(json.dumps(points))
    return text


_TITLES = {
    "learning": "### Learning by its own demonstrations",
    "others": "### Transfer: learned on six groups, tried on the other two",
    "extra": "### Transfer: learned on six groups, tried on data/tasks-extra",
}


def _compared(runs: Runs, what: str) -> list[str]:
    if what != "learning":
        return [line for figure in ("solved", "pass@1") for line in compare(runs, "none", figure)]
    bases = [base for base in ("none", "adaptive-3") if base in runs]
    return [line for base in bases for figure in FIGURES for line in compare(runs, base, figure)]


def main(arguments: list[str] | None = None) -> int:
    """Runs all selections seed by seed; prints tables and comparisons, and writes them with the plots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=SETTINGS, default=list(SETTINGS), help="settings")
    parser.add_argument("--selections", nargs="*", choices=[*SELECTIONS, BOOTSTRAP], default=[*SELECTIONS, BOOTSTRAP])
    parser.add_argument("--samples", type=int, help="a task and iteration, instead of the setting's own")
    parser.add_argument("--iterations", type=int, help="instead of the setting's own")
    parser.add_argument("--no-transfer", action="store_true", help="only learning on the benchmark")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="seeds at a time")
    parser.add_argument(
        "-o", "--output", type=Path, default=None, help="writes OUTPUT-SETTING.md, .json and .png for each setting"
    )
    options = parser.parse_args(arguments)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        for name in options.only:
            setting = SETTINGS[name]
            own = {"samples": options.samples, "iterations": options.iterations}
            setting = replace(setting, **{key: number for key, number in own.items() if number})
            work = partial(one_seed, setting, options.selections, setting.reads and not options.no_transfer)
            found = []
            for one in pool.map(work, seeds):
                found.append(one)
                text = report(name, setting.words(len(found)), found, options.output)
            print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
