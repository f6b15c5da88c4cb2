"""Earlier runs in the store: finding, resuming, and loading the experience of a run.

A run's artifact `request.json` holds its settings and its tasks, even if their files have changed
since; its `attempts.jsonl.gz` hold every answer; its `experience.json`, once it has ended, holds what it learned; its
`overhead.json` and `probe.json` hold the tokens of what came before sampling.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optimizers import Experience, TokenCount
from optimizers.ledger import Ledger
from pipeline.agent.agent import Agent
from pipeline.agent.compiled import make_agent, parse_program
from pipeline.base.errors import UsageError
from pipeline.base.files import file_errors, read_bytes, write_text
from pipeline.languages.language import Task
from pipeline.record import store
from pipeline.record.artifacts import read_text
from pipeline.record.request import LONGEST_EXPERIENCE, Request, parse_experience
from step_runtime.base.errors import describe_error

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


ID_PREFIX = 6
"""The least number of characters of the beginning of a run's id."""

COMPLETE = ("solved", "exhausted")
"""The tags `stopped` of runs that were not ended early by a budget, a fault or the user."""


@dataclass(frozen=True)
class Resumed:
    """A run to resume, its request, its result if it is complete, and whether to take it over while it runs."""

    run_id: str
    name: str
    request: Request
    finished: Finished | None = None
    force: bool = False


@dataclass(frozen=True)
class Finished:
    """The result of a complete run: its experience, the text of the compiled program, and the probe's tokens."""

    experience: Experience
    program: str
    probe: TokenCount


def all_runs(client: MlflowClient, experiment: str, found_by: str = "") -> list[Run]:
    """The runs that are not nested in another one and that a search finds, the latest first."""
    runs, token = [], None
    while True:
        page = client.search_runs([experiment], found_by, order_by=["attributes.start_time DESC"], page_token=token)
        runs += [run for run in page if "mlflow.parentRunId" not in run.data.tags]
        token = page.token
        if not token:
            return runs


def matches(text: str, run: Run) -> bool:
    """Whether a text is the run's id, or the beginning of its id or of its name."""
    by_id = len(text) >= ID_PREFIX and run.info.run_id.startswith(text)
    return bool(text) and (by_id or str(run.info.run_name).startswith(text))


def open_run(text: str) -> Resumed:
    """Finds the run to resume, by its id, or the beginning of its id or of its name.

    Raises:
        UsageError: No run or several runs match, or the run lacks a valid `request.json`.
    """
    client, experiment = store.open_store()
    run = find_run(client, experiment, text)
    found = read_text(client, run.info.run_id, "request.json")
    if found is None:
        raise UsageError(f"--resume: run {_label(run)} has no request.json, so it can't be resumed; start a new run")
    try:
        request = Request.from_json(found)
    except ValueError as error:
        raise UsageError(f"--resume: run {_label(run)} has an invalid request.json; start a new run: {error}") from None
    return Resumed(run.info.run_id, str(run.info.run_name), request, _finished(client, run, request.config.language))


def _finished(client: MlflowClient, run: Run, language: str | None) -> Finished | None:
    if run.info.status != "FINISHED" or run.data.tags.get("stopped") not in COMPLETE:
        return None
    found, program = (read_text(client, run.info.run_id, name) for name in ("experience.json", "compiled.json"))
    if not (found and program):
        return None
    probe = TokenCount.sum(overhead(client, run.info.run_id, "probe.json").values())
    parse_program(program, f"--resume: run {_label(run)}: compiled.json")
    experience = parse_experience(found, f"--resume: run {_label(run)}: experience.json", language)
    return Finished(experience, program, probe)


def overhead(client: MlflowClient, run_id: str, name: str = "overhead.json") -> dict[str, TokenCount]:
    """The tokens in an artifact of a run: those that an optimizer spent before its program was sampled, or others."""
    found = read_text(client, run_id, name)
    try:
        return {name: TokenCount.from_dict(count) for name, count in json.loads(found or "{}").items()}
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise UsageError(f"run {run_id[:8]}: {name}: expected tokens by name: {describe_error(error)}") from None


def tuned(client: MlflowClient, run_id: str) -> Agent | None:
    """The program of an optimizer within a run, if the optimizer had finished before the run was interrupted."""
    found = read_text(client, run_id, "tuned.json")
    return None if found is None else make_agent(parse_program(found, "tuned.json"), "tuned.json")


def load_experience(text: str, tasks: Sequence[Task], language: str | None = None) -> Experience:
    """Loads the experience of an earlier run, from its `experience.json` or by a text that `open_run` accepts.

    Raises:
        UsageError: No such run or file exists, it learned nothing or has not finished, or a task has changed since.
    """
    path = Path(text)
    if path.is_file():
        where = text
        with file_errors(f"--experience: {path}: cannot read the experience"):
            content = read_bytes(path, LONGEST_EXPERIENCE)
    else:
        client, experiment = store.open_store()
        run = find_run(client, experiment, text, option="--experience", files=True)
        where = f"run {_label(run)}"
        found = read_text(client, run.info.run_id, "experience.json")
        if found is None:
            raise UsageError(f"--experience: {where} has not finished; finish it with --resume {run.info.run_id}")
        content = found.encode()
    experience = parse_experience(content, f"--experience: {where}", language)
    known = {entry.task_key: entry.inputs["task"] for entry in experience.entries}
    changed = [task.name for task in tasks if task.name in known and task != known[task.name]]
    if changed:
        raise UsageError(
            f"--experience: {where} solved another task named {changed[0]!r}; rename the file of a changed task"
        )
    if not experience.entries:
        raise UsageError(f"--experience: {where} solved no task, so there is nothing to learn from")
    return experience


def finished_tokens(text: str) -> tuple[str, int]:
    """The id of a finished run that `open_run` accepts, and the tokens that it took, as budgets count them.

    Raises:
        UsageError: No such run exists, or it has not finished.
    """
    client, experiment = store.open_store()
    run = find_run(client, experiment, text, option="--match-tokens")
    tokens = run.data.metrics.get("total_tokens")
    if run.info.status != "FINISHED" or not tokens:
        hint = f"finish it with --resume {run.info.run_id}"
        raise UsageError(f"--match-tokens: run {_label(run)} has not finished; {hint}, or give another run")
    return run.info.run_id, int(tokens + run.data.metrics.get("total_tokens_short", 0))


def find_run(client: MlflowClient, experiment: str, text: str, option: str = "--resume", files: bool = False) -> Run:
    """The one run that `matches` a text, which the user gave for an option, or as the name of a file.

    Raises:
        UsageError: There is none, or there are several.
    """
    runs = all_runs(client, experiment)
    found = [run for run in runs if matches(text, run)]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(_label(run) for run in (found or runs)[:5])
    if found:
        raise UsageError(f"{option}: {text!r} matches {len(found)} runs; give the id of one: {listed}")
    what = "run or file" if files else "run"
    raise UsageError(f"{option}: there is no {what} {text!r}; the latest runs are {listed or 'none'}")


def _label(run: Run) -> str:
    return f"{run.info.run_id[: ID_PREFIX + 2]} ({run.info.run_name}, {run.info.status.lower()})"


class PersistentLedger(Ledger):
    """A ledger that writes its counts, per predictor, to a JSON file after every entry.

    It starts from the counts of earlier processes.
    """

    def __init__(self, path: Path, counts: Mapping[str, TokenCount]) -> None:
        super().__init__()
        self._path, self._writing = path, threading.Lock()
        for name, count in counts.items():
            super().add(name, count)

    def add(self, name: str, count: TokenCount) -> None:
        """Adds `count` to predictor `name`, and rewrites the file."""
        super().add(name, count)
        # This runs in the optimizer's threads, which ignore errors; a full disk is reported by the next other write.
        with self._writing, suppress(UsageError):
            write_text(self._path, json.dumps({key: each.to_dict() for key, each in self.counts.items()}, indent=1))
