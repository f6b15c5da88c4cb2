"""A recorded run read back from the store, and its figures recomputed from the attempts alone.

- MLflow's metrics and the optimizer's own figures are not read; the uploaded attempts of a killed run count.
- The requests that one of DSPy's optimizers made before its program was sampled are not attempts; their tokens are
  recorded apart.
- A task of the run without a correct answer in it may have been solved by the run that it started from; the counts of
  that answer are read from the run's experience.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from optimizers import Attempt, TaskCount, TokenCount
from pipeline.agent.domain import code_length
from pipeline.base.errors import UsageError
from pipeline.base.text import name_of
from pipeline.charts.plots import pass_at_k_curve
from pipeline.languages import registry
from pipeline.languages.language import Task
from pipeline.record import store
from pipeline.record.artifacts import download, listed
from pipeline.record.attempts import read_folder
from pipeline.record.resume import ID_PREFIX, all_runs, matches
from pipeline.record.run_tree import nested_runs
from pipeline.reporting import pass_rates

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

LABEL_FORMATS = {
    "optimizer": "{}", "language": "{}", "lm": "{}",
    "guardian": "guardian {}", "proposer": "{}", "refine": "refined {} times",
    "no_ir": "bare {}", "granularity": "m = {}", "selection": "{}", "demo_tokens": "{} demonstration tokens",
    "samples": "{} samples", "temperatures": "T {}", "task_set_digest": "tasks {}", "program": "{}", "seed": "seed {}",
}  # fmt: skip
"""The parameters that distinguish the runs on a page, and the text of each in a legend."""
NO_TOKENS = TokenCount()


@dataclass(frozen=True)
class Iteration:
    """One iteration, recomputed from its attempts.

    Attributes:
        solved: Names of the tasks solved here for the first time.
        prompt_per_task: Input tokens since the start of the run, averaged over all its tasks (paper, Figure 7, x-axis),
            those of an optimizer before the first iteration included.
    """

    index: int
    label: str
    attempts: tuple[Attempt, ...]
    solved: tuple[str, ...]
    score: pass_rates.PassRates
    prompt_per_task: float

    @property
    def tokens(self) -> TokenCount:
        """The tokens of the iteration, all predictors together."""
        return TokenCount.sum(count for attempt in self.attempts for count in attempt.tokens.values())


@dataclass(frozen=True)
class RecordedRun:
    """A run, recomputed from its artifacts.

    Attributes:
        name: Its name for people, which may not be unique.
        label: Distinguishes it from the other runs on the page.
        counts: Of each solved task, at the best temperature of the iteration that solved it.
        samples: The n of pass@n: the largest number of scored samples of a task at one temperature of an iteration.
        overhead: Tokens outside the iterations: of an optimizer before the first, and of the validation after the last.
    """

    run_id: str
    name: str
    label: str
    status: str
    started: datetime
    params: Mapping[str, str]
    tasks: Mapping[str, Task]
    iterations: tuple[Iteration, ...]
    counts: Mapping[str, TaskCount]
    programs: Mapping[str, str]
    samples: int
    overhead: TokenCount = NO_TOKENS

    @property
    def tokens(self) -> TokenCount:
        """The tokens of the whole run, all predictors together."""
        return TokenCount.sum((self.overhead, *(iteration.tokens for iteration in self.iterations)))

    @property
    def attempts(self) -> list[Attempt]:
        """The attempts of all iterations."""
        return [attempt for iteration in self.iterations for attempt in iteration.attempts]

    @property
    def answers(self) -> int:
        """The number of scored attempts."""
        return sum(attempt.scored for attempt in self.attempts)

    @property
    def language(self) -> str | None:
        """The name of its language; None for the default."""
        return self.params.get("language")

    @cached_property
    def pooled(self) -> Mapping[str, TaskCount]:
        """As `counts`, but over all temperatures together, except for tasks that an earlier run had solved."""
        pooled = dict(self.counts)
        for iteration in self.iterations:
            own = pass_rates.pooled_counts(iteration.attempts, _stop_after(self.params)) if iteration.solved else {}
            pooled |= {name: own[name] for name in iteration.solved}
        return pooled

    def pass_at_k(self, iteration: Iteration) -> list[float]:
        """pass@1, pass@2, …, from 0 to 1, at the end of an iteration, over all temperatures together."""
        solved_in, most = self.solved_in, max((count.samples for count in self.pooled.values()), default=self.samples)
        solved = [count for name, count in self.pooled.items() if solved_in.get(name, -1) <= iteration.index]
        return pass_at_k_curve(solved, len(self.tasks), most)

    @property
    def score(self) -> pass_rates.PassRates:
        """The score at the end of the run."""
        return self.iterations[-1].score

    @property
    def solved_in(self) -> dict[str, int]:
        """The index of the iteration that solved each task, by its name."""
        return {name: iteration.index for iteration in self.iterations for name in iteration.solved}


def read_runs(wanted: Sequence[str], skip: Callable[[str], None] | None = None) -> list[RecordedRun]:
    """Reads runs, sorted by their options, then by time.

    A run is named by its id, or by the beginning of its id (6 characters or more) or of its name, which may match
    several; without names the latest run with answers is read. `skip` is called with a message for each run without
    answers where others have some; None makes this an error.

    Raises:
        UsageError: A text matches no run, or there is nothing to report.
    """
    client, experiment = store.open_store()
    found: list[RecordedRun] = []
    empty: list[str] = []
    for run in _chosen(all_runs(client, experiment), wanted):
        if read := _read(client, run):
            found.append(read)
        else:
            empty.append(f"run {run.info.run_name!r} ({run.info.run_id}) has no recorded answers")
        if found and not wanted:
            break
    if empty and not (found and skip):
        raise UsageError(f"{empty[0]}; nothing to report")
    if skip:
        for message in empty:
            skip(f"left out: {message}")
    runs = sorted(found, key=lambda run: ([run.params.get(key, "") for key in LABEL_FORMATS], run.started))
    return [replace(run, label=label) for run, label in zip(runs, _labels(runs), strict=True)]


def replay(
    attempts: Mapping[int, Sequence[Attempt]],
    labels: Mapping[int, str],
    names: Sequence[str],
    inherited: Mapping[str, TaskCount],
    overhead: TokenCount = NO_TOKENS,
    stop_after: int | None = None,
) -> tuple[tuple[Iteration, ...], dict[str, TaskCount]]:
    """The iterations, and the counts of the tasks that are solved at the end.

    Attempts and labels are by the index of their iteration; `inherited` are the counts of the tasks that an earlier run
    had solved, `overhead` the tokens of an optimizer before the first iteration.
    """
    counts, iterations = dict(inherited), []
    prompt = overhead.input
    for index in sorted(attempts):
        best = pass_rates.best_counts(attempts[index], stop_after)
        solved = {name: c for name, c in best.items() if c.successes and name not in counts}
        counts |= solved
        prompt += sum(count.input for attempt in attempts[index] for count in attempt.tokens.values())
        score = pass_rates.score(names, counts)
        iterations.append(
            Iteration(index, labels[index], tuple(attempts[index]), tuple(solved), score, prompt / len(names))
        )
    return tuple(iterations), counts


def _chosen(runs: Sequence[Run], wanted: Sequence[str]) -> list[Run]:
    if not wanted:
        recorded = [run for run in runs if run.data.metrics]
        if not recorded:
            raise UsageError("no run is recorded yet; start with: python -m pipeline.compile --optimizer adaptive")
        return recorded
    chosen: dict[str, Run] = {}
    for text in wanted:
        matching = [run for run in runs if matches(text, run)]
        if not matching:
            latest = ", ".join(f"{run.info.run_name!r} ({run.info.run_id[: ID_PREFIX + 2]})" for run in runs[:3])
            raise UsageError(f"{text}: no such run; the latest are {latest or 'none'}")
        chosen |= {run.info.run_id: run for run in matching}
    return list(chosen.values())


def _labels(runs: Sequence[RecordedRun]) -> list[str]:
    """A short label for each run: its LM and seed, and what else distinguishes runs."""
    if len(runs) == 1:
        return [runs[0].name]
    contested = {key for key in LABEL_FORMATS if len({run.params.get(key) for run in runs} - {None}) > 1}
    shown = {key: words for key, words in LABEL_FORMATS.items() if key in {*contested, "lm", "seed"}}
    named = [
        ", ".join(
            words.format(PurePath(run.params[key]).stem if key == "program" else run.params[key])
            for key, words in shown.items()
            if key in run.params
        )
        for run in runs
    ]
    joined = [label or run.name for label, run in zip(named, runs, strict=True)]
    own = (
        f" ({run.run_id[:ID_PREFIX]})" if joined.count(label) > 1 else ""
        for run, label in zip(runs, joined, strict=True)
    )
    return [f"{label}{more}" for label, more in zip(joined, own, strict=True)]


def _read(client: MlflowClient, run: Run) -> RecordedRun | None:
    """The run, labelled with its name; None if it has no answers."""
    run_id = run.info.run_id
    with tempfile.TemporaryDirectory() as scratch:
        known = listed(client, run_id)
        folder = download(client, run_id, "", Path(scratch)) if known else Path(scratch)
        attempts, labels = _attempts(folder, run.data.params.get("temperatures", ""))
        before = _overhead(folder / "overhead.json")
        validation = (count for _, each in read_folder(folder, ["validation"]) for count in each.tokens.values())
        overhead = TokenCount.sum((before, *validation))
        language = run.data.params.get("language")
        tasks = _tasks(folder / "tasks", language)
        solutions = _tasks(folder / "solutions", language)
        inherited = _inherited(folder / "experience.json", tasks, attempts.values())
    if not attempts or not tasks:
        return None
    for nested in nested_runs(client, run.info.experiment_id, run_id).values():
        if "label" in nested.data.params:
            labels[int(nested.data.params["iteration"]) - 1] = nested.data.params["label"]
    names = pass_rates.in_group_order(tasks)
    samples = Counter((a.iteration, a.task_key, a.temperature) for each in attempts.values() for a in each if a.scored)
    iterations, counts = replay(attempts, labels, names, inherited, before, _stop_after(run.data.params))
    programs = {name: task.impl for name, task in solutions.items() if task.impl}
    return RecordedRun(
        run_id=run_id,
        name=str(run.info.run_name),
        label=str(run.info.run_name),
        status=run.info.status,
        started=datetime.fromtimestamp(run.info.start_time / 1000, UTC),
        params=run.data.params,
        tasks={name: tasks[name] for name in names},
        iterations=iterations,
        counts=counts,
        programs={name: programs.get(name) or _shortest(name, iterations) for name in names if name in counts},
        samples=max(samples.values(), default=0),
        overhead=overhead,
    )


def _stop_after(params: Mapping[str, str]) -> int | None:
    given = params.get("stop_after", "")
    return int(given) if given.isdecimal() else None


def _attempts(folder: Path, temperatures: str) -> tuple[dict[int, list[Attempt]], dict[int, str]]:
    """The attempts of each iteration, reduced to the data that figures need, and its label without the cycle.

    They are in the order of the run's temperatures, of which the first of equals counts; equal programs are kept in
    memory once.
    """
    attempts: dict[int, list[Attempt]] = {}
    labels: dict[int, str] = {}
    for place, attempt in read_folder(folder, ["iterations"]):
        outputs = {"impl": sys.intern(str(attempt.outputs["impl"]))} if "impl" in attempt.outputs else {}
        stage = attempt.feedback.get("stage")
        feedback: dict[str, object] = {"stage": sys.intern(str(stage))} if stage else {}
        feedback |= {"unscored": True} if attempt.unknown else {}
        attempts.setdefault(attempt.iteration, []).append(replace(attempt, feedback=feedback, outputs=outputs))
        labels[attempt.iteration] = place.partition("_")[2]
    places = {float(number): place for place, number in enumerate(re.findall(r"[\d.]+", temperatures))}
    for each in attempts.values():
        each.sort(key=lambda attempt: (attempt.task, places.get(attempt.temperature, len(places))))
    return attempts, labels


def _tasks(folder: Path, language: str | None) -> dict[str, Task]:
    """The tasks in a folder of artifacts, by name."""
    paths = sorted(folder.rglob("*.yaml"))
    names = [name_of(path.relative_to(folder).as_posix().removesuffix(".yaml")) for path in paths]
    spoken = registry.find(language)
    return {name: spoken.task(path.read_text("utf-8"), name, name) for name, path in zip(names, paths, strict=True)}


def _inherited(path: Path, tasks: Iterable[str], attempts: Iterable[Sequence[Attempt]]) -> dict[str, TaskCount]:
    """The counts of the tasks that an LM had solved in an earlier run, which have no correct answer in this one."""
    own = {attempt.task_key for each in attempts for attempt in each if attempt.passed}
    entries = json.loads(path.read_text("utf-8"))["entries"] if path.is_file() else []
    return {
        entry["task_key"]: TaskCount(entry["task_key"], entry["temperature"], entry["successes"], entry["samples"])
        for entry in entries
        if entry["task_key"] in set(tasks) - own and entry["teacher"] is None
    }


def _overhead(path: Path) -> TokenCount:
    """The tokens of an optimizer before the first iteration, all predictors together."""
    counts = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return TokenCount.sum(map(TokenCount.from_dict, counts.values()))


def _shortest(name: str, iterations: Iterable[Iteration]) -> str:
    """The correct answer with the least code, for a run that was killed before it chose one."""
    correct = (a for iteration in iterations for a in iteration.attempts if a.task_key == name and a.passed)
    return min((str(pass_rates.answer(attempt)) for attempt in correct), key=code_length, default="")
