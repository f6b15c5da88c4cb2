"""Recorded runs for others: chats to tune an LM with, as JSON lines, and all that a paper has to hand over.

sft.jsonl           a line for each distinct right answer: `messages`
preferences.jsonl   a line for each of the nearest wrong programs of a solved task: `prompt`, `rejected`, the `verdict`
                    on it, and `chosen`, the task's solution
bundle.zip          the page, and of each run its artifacts and `run.json`: settings, versions, seed, digest, command

Each line names the task, the digest of its text, its group, the run, and the split: all tasks of a group are in one.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from optimizers import Attempt
from pipeline.agent.agent import Agent
from pipeline.base.errors import UsageError
from pipeline.base.files import replacing, write_text
from pipeline.languages.language import Task
from pipeline.record import store
from pipeline.record.artifacts import download, read_text
from pipeline.record.attempts import read_attempts
from pipeline.record.request import Request
from pipeline.reporting import failures, pass_rates
from pipeline.reporting.runs import RecordedRun
from signatures import YAMLAdapter

BUNDLE = "bundle"
MOST_REJECTED = 8
"""Wrong programs of a task, the nearest to a right one."""
TESTED = 5
"""One of so many groups, on average, is in the split `test`."""
CITED = "Zhang et al., Adaptive Self-improvement LLM Agentic System for ML Library Development, ICML 2025"


def write(kind: str, runs: Sequence[RecordedRun], folder: Path, files: Sequence[str]) -> str:
    """Writes an export beside the `files` of a report; returns its name.

    Raises:
        UsageError: A run does not record its request.
        OSError: The file cannot be written.
    """
    if kind == BUNDLE:
        return _bundle(runs, folder, files)
    write_text(folder / f"{kind}.jsonl", "".join(f"{json.dumps(line)}\n" for run in runs for line in _lines(run, kind)))
    return f"{kind}.jsonl"


def _lines(run: RecordedRun, kind: str) -> Iterator[dict[str, Any]]:
    client, _ = store.open_store()
    request = read_text(client, run.run_id, "request.json")
    if request is None:
        raise UsageError(f"--export: run {run.run_id[:8]} has no request.json")
    config = Request.from_json(request).config
    agent = Agent("none", proposer=config.proposer, ir=config.ir, prompt=config.prompt, language=config.language)
    (_, predictor), *_ = agent.named_predictors()
    adapter, attempts = YAMLAdapter(), dict[str, list[Attempt]]()
    for attempt in read_attempts(client, run.run_id):
        if attempt.scored and attempt.iteration >= 0:
            attempts.setdefault(attempt.task_key, []).append(attempt)

    def said(program: str) -> dict[str, str]:
        content = adapter.format_assistant_message_content(predictor.signature, {"impl": program})
        return {"role": "assistant", "content": content}

    for name, task in run.tasks.items():
        own, about = attempts.get(name, []), _about(run, task)
        prompt = adapter.format(predictor.signature, [], {"task": task.without_impl()})
        if kind == "sft":
            for program in dict.fromkeys(pass_rates.answer_text(each) for each in own if each.passed):
                yield {"messages": [*prompt, said(program)], **about}
        elif name in run.programs:
            chosen = {"prompt": prompt, "chosen": [said(run.programs[name])]}
            for wrong in failures.nearest_failures(own, config.language)[:MOST_REJECTED]:
                yield {**chosen, "rejected": [said(wrong.impl)], "verdict": wrong.feedback, **about}


def _about(run: RecordedRun, task: Task) -> dict[str, str]:
    group = pass_rates.group_of(task.name)
    digest = hashlib.sha256(task.without_impl().statement.encode()).hexdigest()[:16]
    split = "train" if hashlib.sha256(group.encode()).digest()[0] % TESTED else "test"
    return {"task": task.name, "task_digest": digest, "group": group, "split": split, "run": run.run_id}


def _bundle(runs: Sequence[RecordedRun], folder: Path, files: Sequence[str]) -> str:
    client, _ = store.open_store()
    with replacing(folder / f"{BUNDLE}.zip") as raw, zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("CITATION.txt", CITED)
        for name in files:
            archive.write(folder / name, f"report/{name}")
        for run in runs:
            found = client.get_run(run.run_id).data
            described = {"params": found.params, "command": found.tags.get("command"), "metrics": found.metrics}
            archive.writestr(f"runs/{run.run_id}/run.json", json.dumps(described, indent=1))
            with tempfile.TemporaryDirectory() as scratch:
                own = download(client, run.run_id, "", Path(scratch))
                for path in sorted(path for path in own.rglob("*") if path.is_file()):
                    archive.write(path, f"runs/{run.run_id}/{path.relative_to(own).as_posix()}")
    return f"{BUNDLE}.zip"
