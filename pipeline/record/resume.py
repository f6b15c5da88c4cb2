"""Earlier runs in the store: finding one, going on with one that broke off, and from what one learned.

A run's artifact `request.json` holds what it was asked to do, the tasks included, whatever has become of their files;
its `attempts.jsonl.gz` hold every answer; its `experience.json`, once it has ended, what it learned.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.base.errors import UsageError
from pipeline.record import store
from pipeline.record.request import Request, read_experience

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

    from optimizers import AttemptLog, Experience, TokenCount
    from pipeline.agent.agent import Agent
    from step_runtime.tasks.task import Task

ID_PREFIX = 6
"""Characters from which on a text may stand for a run by the beginning of its id."""

OWN_ENDS = ("solved", "exhausted")
"""What has stopped a run that no budget, fault or person did."""


@dataclass(frozen=True)
class Resumed:
    """A run to go on with, what it was asked to do, and how it ended if there is nothing left to do."""

    run_id: str
    name: str
    request: Request
    finished: Finished | None = None


@dataclass(frozen=True)
class Finished:
    """How a run ended that came to its own end: its experience, and the text of the compiled program."""

    experience: Experience
    program: str


def all_runs(client: MlflowClient, experiment: str) -> list[Run]:
    """The runs that are not an iteration of another, the latest first."""
    runs, token = [], None
    while True:
        page = client.search_runs([experiment], order_by=["attributes.start_time DESC"], page_token=token)
        runs += [run for run in page if "mlflow.parentRunId" not in run.data.tags]
        token = page.token
        if not token:
            return runs


def stands_for(text: str, run: Run) -> bool:
    """Whether a text is the run's id, or the beginning of its id or of its name."""
    by_id = len(text) >= ID_PREFIX and run.info.run_id.startswith(text)
    return bool(text) and (by_id or str(run.info.run_name).startswith(text))


def open_run(text: str) -> Resumed:
    """The run to go on with that a text stands for: its id, or the beginning of its id or of its name.

    Raises:
        UsageError: there is none, there are several, or the run was made before it could be gone on with.
    """
    client, experiment = store.open_store()
    run = _find(client, experiment, text)
    found = _artifact(client, run.info.run_id, "request.json")
    if found is None:
        raise UsageError(f"--resume: the run {_shown(run)} has no request.json, so nothing of it was begun; start anew")
    try:
        request = Request.from_json(found)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"--resume: the run {_shown(run)} has a broken request.json; start anew: {error}") from None
    return Resumed(run.info.run_id, str(run.info.run_name), request, _finished(client, run))


def _finished(client: MlflowClient, run: Run) -> Finished | None:
    if run.info.status != "FINISHED" or run.data.tags.get("stopped") not in OWN_ENDS:
        return None
    found, program = (_artifact(client, run.info.run_id, name) for name in ("experience.json", "compiled.json"))
    return Finished(read_experience(json.loads(found)), program) if found and program else None


def attempts(client: MlflowClient, run_id: str) -> AttemptLog:
    """All attempts on record of a run, those of its validation included, iteration by iteration."""
    from optimizers import Attempt, AttemptLog

    folders = [item.path for item in client.list_artifacts(run_id) if item.path in ("iterations", "validation")]
    log = AttemptLog()
    with tempfile.TemporaryDirectory() as scratch:
        for name in folders:
            client.download_artifacts(run_id, name, scratch)
        for path in sorted(Path(scratch).rglob("attempts.jsonl.gz")):
            try:
                with gzip.open(path, "rt", encoding="ascii") as lines:
                    for line in lines:
                        log.append(Attempt.from_dict(json.loads(line)))
            except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
                where = f"the run {run_id[: ID_PREFIX + 2]}: {path.relative_to(scratch)}"
                raise UsageError(f"{where}: cannot read the attempts: {store.first_line(error)}") from None
    return log


def overhead(client: MlflowClient, run_id: str) -> dict[str, TokenCount]:
    """What an optimizer within a run has spent on no sample, per predictor."""
    from optimizers import TokenCount

    found = _artifact(client, run_id, "overhead.json")
    return {name: TokenCount.from_dict(count) for name, count in json.loads(found or "{}").items()}


def tuned(client: MlflowClient, run_id: str) -> Agent | None:
    """The program that an optimizer within a run had made before the run broke off, if it was done."""
    from pipeline.agent.compiled import unbound

    found = _artifact(client, run_id, "tuned.json")
    if found is None:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "tuned.json")
        path.write_text(found, encoding="utf-8")
        return unbound(path)


def load_experience(text: str, tasks: Sequence[Task]) -> Experience:
    """What the run, or the file `experience.json`, that a text stands for has learned.

    Args:
        text: a path, or what `open_run` takes.
        tasks: those to solve now.

    Raises:
        UsageError: there is no such run or file, it has learned nothing yet, or a task has changed since.
    """
    path = Path(text)
    if path.is_file():
        content, where = path.read_bytes(), text
    else:
        client, experiment = store.open_store()
        run = _find(client, experiment, text, option="--experience", files=True)
        where = f"the run {_shown(run)}"
        found = _artifact(client, run.info.run_id, "experience.json")
        if found is None:
            raise UsageError(f"--experience: {where} has not ended; end it first, with --resume {run.info.run_id}")
        content = found.encode()
    try:
        experience = read_experience(json.loads(content))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"--experience: {where}: expected the experience of a run in JSON: {error}") from None
    known = {entry.task_key: entry.inputs["task"] for entry in experience.entries}
    changed = [task.name for task in tasks if task.name in known and task != known[task.name]]
    if changed:
        told = f"another task of the name {changed[0]!r}; rename the file of one that has changed"
        raise UsageError(f"--experience: {where} solved {told}")
    if not experience.entries:
        raise UsageError(f"--experience: {where} solved no task, so there is nothing to go on from")
    return experience


def _artifact(client: MlflowClient, run_id: str, name: str) -> str | None:
    """The text of an artifact, if there is one of the name."""
    if name not in [item.path for item in client.list_artifacts(run_id)]:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        return Path(client.download_artifacts(run_id, name, scratch)).read_text(encoding="utf-8")


def _find(client: MlflowClient, experiment: str, text: str, option: str = "--resume", files: bool = False) -> Run:
    runs = all_runs(client, experiment)
    found = [run for run in runs if stands_for(text, run)]
    if len(found) == 1:
        return found[0]
    told = ", ".join(_shown(run) for run in (found or runs)[:5])
    if found:
        raise UsageError(f"{option}: {text!r} stands for {len(found)} runs; give the id of one: {told}")
    what = "run or file" if files else "run"
    raise UsageError(f"{option}: there is no {what} {text!r}; the latest runs are {told or 'none'}")


def _shown(run: Run) -> str:
    return f"{run.info.run_id[: ID_PREFIX + 2]} ({run.info.run_name}, {run.info.status.lower()})"
