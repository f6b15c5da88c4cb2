"""What an objective saves, and how many programs of different cost the system finds for each task.

Two runs of `pipeline.compile` on the three sets of tasks differ in `--objective` alone. Of each task: the cheapest and
the dearest right answer of both runs, and the cost of each run's solution. Then the verified programs of different
cost, by who found them: right answers, rewrites of the runs' solutions, and the search's Pareto front. Two costs are
different if memory, time, traffic or operations are, at the task's first sizes on the default chip.

How to run: python -m benchmarks.objectives (--objective, --samples; --seconds of search a task, 0 for none;
--runs DEFAULT OTHER reads two recorded runs instead)
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from optimizers import Experience
from pipeline.base.choices import Figure
from pipeline.base.errors import UsageError
from pipeline.base.text import exact_number
from pipeline.record import store
from pipeline.record.attempts import read_attempts
from pipeline.record.resume import load_experience
from pipeline.synthesis import SearchBudget
from pipeline.synthesis.parallel_search import search_all
from pipeline.synthesis.results import programs_of
from pipeline.synthesis.search_budget import SEVERAL
from pipeline.verification.limits import verification_settings
from pipeline.verification.metric import Metric
from pipeline.verification.pricing import Pricing
from pipeline.verification.workers import LocalWorkers
from step_runtime.cost.chip import DEFAULT_CHIP
from step_runtime.cost.front import TRADED
from step_runtime.tasks.task import Task

FOLDERS = ("data/tasks", "data/tasks-extra", "data/tasks-modern")
PRICED = 60
"""Programs priced around each solution."""
ENOUGH = 8
"""Rewritten programs of different cost verified for each task, at most."""

Figures = Mapping[Figure, float]


@dataclass(frozen=True)
class Run:
    """A run: the solution of each solved task, and the right answers of each."""

    solutions: Mapping[str, str]
    right: Mapping[str, frozenset[str]]
    experience: Experience


@dataclass(frozen=True)
class Found:
    """A task's programs: the cost of each run's solution, of all right answers, and all costs by who found them."""

    task: Task
    solutions: tuple[float | None, float | None]
    answers: Sequence[float]
    costs: Mapping[str, frozenset[tuple[float, ...]]]

    @property
    def all(self) -> frozenset[tuple[float, ...]]:
        """All different costs."""
        return frozenset[tuple[float, ...]]().union(*self.costs.values())

    def cheapest(self, figure: Figure) -> float:
        """The least cost of all by one figure."""
        return min(cost[TRADED.index(figure)] for cost in self.all)


def compiled(options: argparse.Namespace, objective: str, folder: str) -> str:
    """Runs the command, and returns the id of its run."""
    sampling = ["--samples", str(options.samples), "--temperatures", str(options.temperature)]
    limits = ["--objective", objective, "--max-iterations", str(options.iterations)]
    command = [sys.executable, "-m", "pipeline.compile", "--optimizer", "adaptive", *sampling, *limits]
    command += ["--json", "-o", f"{folder}/{objective}.json"]
    done = subprocess.run([*command, "--tasks", *FOLDERS], stdout=subprocess.PIPE, check=True)
    return str(json.loads(done.stdout)["run_id"])


def read_run(run_id: str) -> Run:
    """A recorded run."""
    experience = load_experience(run_id, ())
    right: dict[str, set[str]] = {}
    for attempt in read_attempts(store.open_store()[0], run_id):
        if attempt.passed:
            right.setdefault(attempt.task_key, set()).add(str(attempt.outputs["impl"]))
    solutions = {entry.task_key: str(entry.outputs["impl"]) for entry in experience.entries}
    return Run(solutions, {name: frozenset(texts) for name, texts in right.items()}, experience)


class Comparison:
    """Prices what two runs and the search found, in worker processes."""

    def __init__(self, runs: tuple[Run, Run], searched: Mapping[str, Sequence[str]], figure: Figure) -> None:
        self._runs, self._searched, self._figure = runs, searched, figure

    def of(self, task: Task, metric: Metric) -> Found:
        """What was found for a task."""
        name, pricing = str(task.name), Pricing(task, DEFAULT_CHIP, metric.executor)

        def figures(text: str) -> Figures | None:
            priced = pricing.price(text, formulas=False)
            return None if isinstance(priced, tuple) else priced.cost.figures()

        answers = {text: figures(text) for run in self._runs for text in sorted(run.right.get(name, ()))}
        solutions = [answers[run.solutions[name]] if name in run.solutions else None for run in self._runs]
        texts = dict.fromkeys(run.solutions[name] for run in self._runs if name in run.solutions)
        costs = {
            "answers": _costs(answers.values()),
            "rewrites": _costs(self._rewritten(task, texts, pricing, metric)),
            "search": _costs(figures(text) for text in self._searched.get(name, ())),
        }
        known = [each[self._figure] for each in answers.values() if each]
        first, second = (each[self._figure] if each else None for each in solutions)
        return Found(task, (first, second), known, costs)

    def _rewritten(self, task: Task, texts: Iterable[str], pricing: Pricing, metric: Metric) -> list[Figures]:
        """The costs of verified rewrites, of each cost one."""
        found: dict[tuple[float, ...], Figures] = {}
        for text in texts:
            variants = pricing.rewritten(text, self._figure, PRICED)
            for variant in variants if isinstance(variants, list) else ():
                figures = variant.cost.figures()
                new = _cost(figures) not in found and len(found) < ENOUGH
                if new and metric.verdict(task, variant.text).passed:
                    found[_cost(figures)] = figures
        return list(found.values())


def _cost(figures: Figures) -> tuple[float, ...]:
    return tuple(figures[figure] for figure in TRADED)


def _costs(found: Iterable[Figures | None]) -> frozenset[tuple[float, ...]]:
    return frozenset(_cost(figures) for figures in found if figures)


def compare(runs: tuple[Run, Run], figure: Figure, seconds: float) -> list[Found]:
    """What was found for every task that either run solved, in order."""
    tasks = {e.task_key: e.inputs["task"] for run in runs for e in run.experience.entries}
    ordered = [tasks[name] for name in runs[0].experience.tasks if name in tasks]
    workers, searched = LocalWorkers(), dict[str, Sequence[str]]()
    if seconds:
        budget = SearchBudget(seconds, programs=SEVERAL)
        searched = {str(task.name): programs_of(outcome) for task, outcome in search_all(ordered, budget, workers)}
    comparison, found = Comparison(runs, searched, figure), list[Found]()
    with workers.pool(verification_settings()) as pool, ThreadPoolExecutor(workers.count) as threads:
        metric = Metric(pool)
        for task, future in [(task, threads.submit(comparison.of, task, metric)) for task in ordered]:
            try:
                found.append(future.result())
            except UsageError as error:
                print(f"{task.name}: {error}", file=sys.stderr)
    return found


def lines(found: Sequence[Found], objective: Figure) -> Iterable[str]:
    """The table, then what is saved in all, and how many tasks have three programs of different cost."""
    yield f"| task | right answers: cheapest | dearest | default | --objective {objective} | cheapest of all | costs |"
    yield "|---|---|---|---|---|---|---|"
    found = [each for each in found if each.all]
    for each in found:
        default, other = each.solutions
        answers = [min(each.answers, default=None), max(each.answers, default=None)]
        cells = [*answers, default, other, each.cheapest(objective)]
        numbers = ["" if cell is None else exact_number(cell) for cell in cells]
        yield f"| {' | '.join([str(each.task.name), *numbers, str(len(each.all))])} |"
    solved = [each for each in found if None not in each.solutions]
    both = [each.solutions for each in solved]
    totals = [sum(pair[place] or 0 for pair in both) for place in (0, 1)]
    cheaper = sum((pair[1] or 0) < (pair[0] or 0) for pair in both)
    saved = f"{1 - totals[1] / totals[0]:.1%}" if totals[0] else "nothing"
    yield ""
    sums = " against ".join(map(exact_number, totals))
    yield f"{objective}, {len(both)} tasks solved by both runs: {sums} in all, {saved} saved;"
    yield f"cheaper for {cheaper} of them, dearer for {sum((pair[1] or 0) > (pair[0] or 0) for pair in both)}"
    least = [(each.cheapest(objective), each.solutions[1] or 0) for each in solved]
    yield f"the cheapest of all: {exact_number(sum(cost for cost, _ in least))} in all,"
    yield f"cheaper than the solution for {sum(cost < own for cost, own in least)} of them"
    for source in ("answers", "rewrites", "search"):
        yield f"three or more costs by {source} alone: {sum(len(each.costs[source]) >= 3 for each in found)} tasks"
    yield f"three or more costs by all: {sum(len(each.all) >= 3 for each in found)} of {len(found)} solved tasks"


def main(argv: Sequence[str] | None = None) -> None:
    """Runs or reads both, and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.objectives", description=__doc__.partition("\n")[0])
    parser.add_argument("--objective", choices=TRADED, default="memory", help="default: %(default)s")
    parser.add_argument("--samples", type=int, default=8, help="of each task (default: %(default)s)")
    parser.add_argument("--temperature", type=float, default=0.7, help="default: %(default)s")
    parser.add_argument("--iterations", type=int, default=3, help="of each run, at most (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of search for each task (default: %(default)g)")
    parser.add_argument("--runs", nargs=2, metavar=("DEFAULT", "OTHER"), help="recorded runs to read instead")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        if not options.runs:
            os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{Path(folder)}/mlflow.db"
        ids = options.runs or [compiled(options, name, folder) for name in ("correctness", options.objective)]
        found = compare((read_run(ids[0]), read_run(ids[1])), options.objective, options.seconds)
    print("\n".join(lines(found, options.objective)))


if __name__ == "__main__":
    main()
