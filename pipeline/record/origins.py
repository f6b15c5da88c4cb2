"""Who wrote a program, by the record of the run in which it was written."""

from __future__ import annotations

import hashlib
from typing import Any

from optimizers import Entry
from pipeline.base.errors import UsageError
from pipeline.base.outputs import Origin
from pipeline.base.text import path_of
from pipeline.languages import registry
from pipeline.languages.language import Task
from pipeline.record import store
from pipeline.record.artifacts import listed, read_text
from pipeline.record.request import parse_experience
from pipeline.record.resume import find_run


def origin_in(run: str, task: Task, text: str, language: str | None) -> Origin:
    """The LM, the run and the sample that wrote the program of a task, as the record of a run has it.

    The program is the sampled answer, or the run's simpler text of it.

    Raises:
        UsageError: There is no such run, it has not finished, or it solved the task otherwise or not at all.
    """
    client, experiment = store.open_store()
    found = find_run(client, experiment, run, option="--run")
    run_id = str(found.info.run_id)
    content = read_text(client, run_id, "experience.json")
    if content is None:
        raise UsageError(f"--run: run {run_id[:8]} has not finished; finish it with --resume {run_id}")
    entries = parse_experience(content, f"--run: run {run_id[:8]}", language).entries
    entry = next((each for each in entries if each.inputs["task"].statement == task.without_impl().statement), None)
    if entry is None:
        raise UsageError(f"--run: run {run_id[:8]} has not solved this task")
    iteration = entry.iteration if entry.answer_iteration is None else entry.answer_iteration
    params = found.data.params
    return Origin(
        lm=params.get("lm"),
        run_id=run_id,
        seed=int(params["seed"]) if params.get("seed", "").isdecimal() else None,
        iteration=iteration + 1,
        temperature=entry.answer_temperature,
        sample=entry.answer_sample,
        prompt_sha256=_prompt(client, run_id, iteration),
        simplified=_is_simplified(client, run_id, entry, text, language),
    )


def _is_simplified(client: Any, run_id: str, entry: Entry, text: str, language: str | None) -> bool:
    """Whether a program is the run's simplified text of the answer, and not the answer itself."""
    spoken = registry.find(language)
    key, answer = spoken.key(None, text), str(entry.outputs["impl"])
    if key == spoken.key(None, answer):
        return False
    written = read_text(client, run_id, f"solutions/{path_of(entry.task_key)}.yaml")
    solved = spoken.task(written, entry.task_key, entry.task_key).impl if written else None
    if solved is None or key != spoken.key(None, solved):
        raise UsageError(f"--run: run {run_id[:8]} has solved this task with another program; name that, or omit --run")
    return True


def _prompt(client: Any, run_id: str, iteration: int) -> str | None:
    """The digest of an iteration's prompt; None for a record without it."""
    for path in listed(client, run_id, "iterations"):
        if path.rpartition("/")[2].startswith(f"{iteration + 1:02d}_"):
            text = read_text(client, run_id, f"{path}/prompt.yaml")
            return text and hashlib.sha256(text.encode()).hexdigest()
    return None
