"""A recorded run read back from the store, and its figures recomputed from the attempts alone.

- Of MLflow's metrics and of what the optimizer said of itself nothing is read; what a killed run had uploaded counts.
- What one of DSPy's optimizers took before its program was sampled is no attempt; its tokens are on record apart.
- A task of the run without a right answer in it may have been solved by the run that it went on from; that answer's
  counts are read from the run's experience.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from optimizers import Attempt, TaskCount, TokenCount
from optimizers.strategies.adaptive import Adaptive
from pipeline.agent.domain import code_length
from pipeline.base.errors import UsageError
from pipeline.record import store
from pipeline.record.resume import ID_PREFIX, all_runs, stands_for
from pipeline.reporting import measures

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

    from step_runtime.tasks.task import Task

TELLING = {
    "optimizer": "{}", "lm": "{}", "guardian": "guardian {}", "proposer": "{}", "refine": "refined {} times",
    "no_ir": "bare {}", "granularity": "m = {}",
    "samples": "{} samples", "temperatures": "T {}", "task_set_digest": "tasks {}", "program": "{}", "seed": "seed {}",
}  # fmt: skip
"""The parameters that tell runs of one page apart, and how each is put into a legend."""
ALWAYS_TOLD = ("optimizer", "lm")
NO_TOKENS = TokenCount()


@dataclass(frozen=True)
class Iteration:
    """One iteration, as its attempts tell.

    Attributes:
        index: from 0.
        label: `None`, `H_1`, `HM_2`, …, or the name of one of DSPy's optimizers.
        attempts: in the algorithm's order.
        solved: names of the tasks solved here for the first time.
        score: over all tasks of the run, each with the counts of the iteration that solved it.
        prompt_per_task: input tokens since the run began, averaged over all its tasks (paper, Figure 7, x-axis); what
            an optimizer took before the first iteration is among them.
    """

    index: int
    label: str
    attempts: tuple[Attempt, ...]
    solved: tuple[str, ...]
    score: measures.Score
    prompt_per_task: float

    @property
    def tokens(self) -> TokenCount:
        """What the iteration took, all predictors together."""
        return TokenCount.sum(count for attempt in self.attempts for count in attempt.tokens.values())


@dataclass(frozen=True)
class RecordedRun:
    """A run, as its artifacts tell.

    Attributes:
        run_id: MLflow's.
        name: for people; several runs may have one name.
        label: tells it from the other runs of the page.
        status: MLflow's word on how it ended, or `RUNNING`.
        started: when, in UTC.
        params: the options it was made with, as text.
        tasks: by name, by group.
        iterations: in order, at least one.
        counts: of the tasks solved, at the best temperature of the iteration that solved each.
        programs: of the tasks solved, the one that it was remembered by.
        overhead: tokens of no iteration: of an optimizer before the first one, and of the validation after the last.
        samples: n, the most scored samples that a task has at one temperature of an iteration.
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
        """What the whole run took, all predictors together."""
        return TokenCount.sum((self.overhead, *(iteration.tokens for iteration in self.iterations)))

    @property
    def attempts(self) -> list[Attempt]:
        """Of all iterations."""
        return [attempt for iteration in self.iterations for attempt in iteration.attempts]

    @property
    def inputs(self) -> dict[str, list[str]]:
        """The names of each task's inputs."""
        return {name: [spec.name for spec in task.inputs] for name, task in self.tasks.items()}

    @property
    def score(self) -> measures.Score:
        """At the end."""
        return self.iterations[-1].score

    @property
    def solved_in(self) -> dict[str, int]:
        """The index of the iteration that solved each task solved here."""
        return {name: iteration.index for iteration in self.iterations for name in iteration.solved}


def read_runs(wanted: Sequence[str], skip: Callable[[str], None] | None = None) -> list[RecordedRun]:
    """The runs that the texts stand for, by their options, then by time; without any text, the latest with answers.

    Args:
        wanted: ids, beginnings of ids (6 characters or more) or of names, which may stand for several runs.
        skip: told in words of each run that has no answers, where others have; None: such a run is an error.

    Raises:
        UsageError: a text stands for no run, or there is nothing to report.
    """
    client, experiment = store.open_store()
    found: list[RecordedRun] = []
    empty: list[str] = []
    for run in _chosen(all_runs(client, experiment), wanted):
        if read := _read(client, run):
            found.append(read)
        else:
            empty.append(f"the run {run.info.run_name!r} ({run.info.run_id}) has no recorded answers")
        if found and not wanted:
            break
    if empty and not (found and skip):
        raise UsageError(f"{empty[0]}; nothing to report")
    if skip:
        for told in empty:
            skip(f"left out: {told}")
    runs = sorted(found, key=_place)
    return [replace(run, label=label) for run, label in zip(runs, _labels(runs), strict=True)]


def replay(
    attempts: Mapping[int, Sequence[Attempt]],
    labels: Mapping[int, str],
    names: Sequence[str],
    inherited: Mapping[str, TaskCount],
    overhead: TokenCount = NO_TOKENS,
) -> tuple[tuple[Iteration, ...], dict[str, TaskCount]]:
    """The iterations, and the counts of the tasks that are solved at the end.

    Args:
        attempts: of each iteration, by its index.
        labels: of each iteration.
        names: of the run's tasks.
        inherited: the counts of the tasks that were solved before the run began.
        overhead: what an optimizer took before the first iteration.
    """
    counts, iterations = dict(inherited), []
    prompt = overhead.input
    for index in sorted(attempts):
        fared = measures.best_counts(attempts[index])
        solved = {name: c for name, c in fared.items() if c.successes and name not in counts}
        counts |= solved
        prompt += sum(count.input for attempt in attempts[index] for count in attempt.tokens.values())
        score = measures.score(names, counts)
        iterations.append(
            Iteration(index, labels[index], tuple(attempts[index]), tuple(solved), score, prompt / len(names))
        )
    return tuple(iterations), counts


def with_cycles(iterations: Sequence[Iteration], granularity: int) -> tuple[Iteration, ...]:
    """The iterations with the cycle in their labels, `HM_2`; one begins after each that solved something.

    What is no level of demonstrations, such as `None`, stays as it is.
    """
    levels = {Adaptive(granularity).level_label(level) for level in range(granularity)}
    labelled, cycle, fresh = [], 0, True
    for iteration in iterations:
        label = iteration.label
        if label in levels:
            cycle += fresh
            fresh = bool(iteration.solved)
            label = f"{label}_{cycle}"
        labelled.append(replace(iteration, label=label))
    return tuple(labelled)


def _chosen(runs: Sequence[Run], wanted: Sequence[str]) -> list[Run]:
    if not wanted:
        recorded = [run for run in runs if run.data.metrics]
        if not recorded:
            raise UsageError("no run is recorded yet; make one: python -m pipeline.compile --optimizer adaptive")
        return recorded
    chosen: dict[str, Run] = {}
    for text in wanted:
        matching = [run for run in runs if stands_for(text, run)]
        if not matching:
            latest = ", ".join(f"{run.info.run_name!r} ({run.info.run_id[: ID_PREFIX + 2]})" for run in runs[:3])
            raise UsageError(f"{text}: no such run; the latest are {latest or 'none'}")
        chosen |= {run.info.run_id: run for run in matching}
    return list(chosen.values())


def _place(run: RecordedRun) -> tuple[list[str], int, datetime]:
    """Runs that differ in granularity alone stand beside each other, by granularity."""
    told = [run.params.get(key, "") for key in TELLING if key != "granularity"]
    return told, _granularity(run.params), run.started


def _granularity(params: Mapping[str, str]) -> int:
    m = params.get("granularity", "")
    return int(m) if m.isdigit() else 3


def _labels(runs: Sequence[RecordedRun]) -> list[str]:
    """A short label a run: optimizer and LM where the page has several, then only what else tells equal ones apart."""
    if len(runs) == 1:
        return [runs[0].name]
    labels: list[tuple[str, ...]] = [()] * len(runs)
    for key, words in TELLING.items():
        values = [run.params.get(key) for run in runs]
        rivals: dict[tuple[str, ...], set[str]] = {}
        for label, value in zip(labels, values, strict=True):
            rivals.setdefault(() if key in ALWAYS_TOLD else label, set()).update([value] if value is not None else [])
        for place, value in enumerate(values):
            contested = len(rivals[() if key in ALWAYS_TOLD else labels[place]]) > 1
            if contested and value is not None:
                labels[place] += (words.format(PurePath(value).stem if key == "program" else value),)
    joined = [", ".join(label) or run.name for label, run in zip(labels, runs, strict=True)]
    repeated = Counter(joined)
    return [
        f"{label} ({run.run_id[:ID_PREFIX]})" if repeated[label] > 1 else label
        for run, label in zip(runs, joined, strict=True)
    ]


def _read(client: MlflowClient, run: Run) -> RecordedRun | None:
    """The run, its label its name; None if it has no answers."""
    from mlflow.exceptions import MlflowException

    run_id, params = run.info.run_id, run.data.params
    with tempfile.TemporaryDirectory() as scratch:
        try:
            folder = Path(client.download_artifacts(run_id, "", scratch))
        except (MlflowException, OSError):
            folder = Path(scratch)
        attempts, levels = _attempts(folder, "iterations")
        validation = [attempt for drawn in _attempts(folder, "validation")[0].values() for attempt in drawn]
        before = _overhead(folder / "overhead.json")
        tasks = _tasks(folder / "tasks")
        remembered = _tasks(folder / "solutions")
        inherited = _inherited(folder / "experience.json", tasks, attempts.values())
    if not any(attempts.values()) or not tasks:
        return None
    names = measures.in_group_order(tasks)
    iterations, counts = replay(attempts, levels, names, inherited, before)
    iterations = with_cycles(iterations, _granularity(params))
    told = {name: task.impl for name, task in remembered.items() if task.impl}
    return RecordedRun(
        run_id=run_id,
        name=str(run.info.run_name),
        label=str(run.info.run_name),
        status=run.info.status,
        started=datetime.fromtimestamp(run.info.start_time / 1000, UTC),
        params=params,
        tasks={name: tasks[name] for name in names},
        iterations=iterations,
        counts=counts,
        programs={name: told.get(name) or _shortest(name, iterations) for name in names if name in counts},
        samples=_most_samples(a for drawn in attempts.values() for a in drawn),
        overhead=TokenCount.sum((before, *(count for attempt in validation for count in attempt.tokens.values()))),
    )


def _attempts(folder: Path, kind: str) -> tuple[dict[int, list[Attempt]], dict[int, str]]:
    """The attempts of each iteration in the artifacts' folder `kind`, and what its folder `03_HM` calls it."""
    attempts: dict[int, list[Attempt]] = {}
    levels: dict[int, str] = {}
    for path in sorted(folder.glob(f"{kind}/*/attempts.jsonl.gz")):
        try:
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                read = [_attempt(line) for line in lines]
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            where = path.relative_to(folder)
            raise UsageError(f"{where}: cannot read the attempts: {type(error).__name__}: {error}") from None
        for attempt in read:
            attempts.setdefault(attempt.iteration, []).append(attempt)
            levels[attempt.iteration] = re.sub(r"^\d+_", "", path.parent.name)
    return attempts, levels


def _attempt(line: str) -> Attempt:
    """An attempt without what no figure needs; programs drawn again are kept in memory once."""
    data: dict[str, Any] = json.loads(line)
    outputs = {"impl": sys.intern(str(data["outputs"]["impl"]))} if "impl" in data["outputs"] else {}
    return Attempt.from_dict(data | {"feedback": {}, "outputs": outputs})


def _tasks(folder: Path) -> dict[str, Task]:
    """The tasks in a folder of artifacts, by name."""
    from step_runtime.tasks.reader import loads_task

    paths = sorted(folder.rglob("*.yaml"))
    names = [path.relative_to(folder).with_suffix("").as_posix() for path in paths]
    return {name: loads_task(path.read_text("utf-8"), name) for name, path in zip(names, paths, strict=True)}


def _inherited(path: Path, tasks: Iterable[str], drawn: Iterable[Sequence[Attempt]]) -> dict[str, TaskCount]:
    """The counts of the tasks that an earlier run had solved: nobody answered them rightly in this one."""
    own = {attempt.task_key for attempts in drawn for attempt in attempts if attempt.passed}
    entries = json.loads(path.read_text("utf-8"))["entries"] if path.is_file() else []
    return {
        entry["task_key"]: TaskCount(entry["task_key"], entry["temperature"], entry["successes"], entry["samples"])
        for entry in entries
        if entry["task_key"] in set(tasks) - own
    }


def _overhead(path: Path) -> TokenCount:
    """What an optimizer took before the first iteration, all predictors together."""
    counts = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return TokenCount.sum(map(TokenCount.from_dict, counts.values()))


def _most_samples(attempts: Iterable[Attempt]) -> int:
    drawn = Counter((a.iteration, a.task_key, a.temperature) for a in attempts if a.scored)
    return max(drawn.values(), default=0)


def _shortest(name: str, iterations: Iterable[Iteration]) -> str:
    """The right answer with the least code, where a run died before it chose one."""
    right = (a for iteration in iterations for a in iteration.attempts if a.task_key == name and a.passed)
    return min((str(measures.answer(attempt)) for attempt in right), key=code_length, default="")
