"""What `pipeline.generate` writes and reports: the files of programs, and the result of each task."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from optimizers import TokenCount
from pipeline.actions.generate_programs import Progress, Stages
from pipeline.actions.offers import (
    NO_OFFER,
    Generated,
    WrittenOffer,
    alternatives_folder,
    findings_of,
    write_offer,
)
from pipeline.actions.split_tasks import as_json, headline
from pipeline.base.errors import Exit, UsageError
from pipeline.base.languages import DEFAULT
from pipeline.base.text import counted
from pipeline.languages.language import Task
from pipeline.reporting.failures import MAX_FAILURES, summarize
from pipeline.running.session import RERUN
from pipeline.synthesis.results import why

Files = Mapping[str, Sequence[Path]]
"""Files by the name of their task."""


def output_files(
    tasks: Sequence[Task], output: str | None, form: str, language: str | None = None, *, force: bool
) -> Files:
    """The files for each task's program in the folder `output`; none if no folder is named.

    `form` is `yaml`, `text`, a file whose suffix is the language's name, or `both`; `force` says whether existing files
    may be overwritten.

    Raises:
        UsageError: A file exists and may not be overwritten.
    """
    if output is None:
        return {task.name: [] for task in tasks}
    text = f".{language or DEFAULT}"
    endings = {"yaml": (".yaml",), "text": (text,), "both": (".yaml", text)}[form]
    files = {task.name: [Path(output, f"{task.name}{ending}") for ending in endings] for task in tasks}
    folders = [alternatives_folder(paths[0]) for paths in files.values()]
    existing = [path for path in (*(path for paths in files.values() for path in paths), *folders) if path.exists()]
    if existing and not force:
        more = f" and {len(existing) - 1} more" if len(existing) > 1 else ""
        raise UsageError(f"{existing[0]} exists{more}; use --force to overwrite, or another folder for -o")
    return files


def generate(stages: Stages, proposer: str, files: Files, texts: Mapping[str, str]) -> Generated:
    """Runs the stages, and writes the programs to each task's files; comments in the task files' `texts` are kept.

    Raises:
        UsageError: The program can't be used, a task's own code fails, or a file can't be written.
        LMUnavailable: The LM can't be used.
        ClusterUnavailable: The cluster can't be used.
    """
    start = time.monotonic()
    progress = stages.run()
    written = {
        task.name: write_offer(task, progress.offers[task.name], files[task.name], texts.get(task.name))
        for task in stages.tasks
        if task.name in progress.offers
    }
    asked = _asked(stages, progress) if stages.lm is not None else {}
    result = {
        "proposer": proposer,
        "solved": [task.name for task in stages.tasks if task.name in written],
        "unsolved": [task.name for task in stages.tasks if task.name not in written],
        "tasks": {task.name: _task_json(task, stages, progress, written.get(task.name)) for task in stages.tasks},
        "warnings": findings_of(written),
        "seconds": round(time.monotonic() - start, 3),
        **asked,
    }
    text = "\n\n".join("\n".join(_task_text(task, stages, progress, written.get(task.name))) for task in stages.tasks)
    message = f"{progress.message}; verified programs are kept, see above" if progress.stopped else ""
    if progress.stopped in ("interrupted", "failed"):
        code = Exit.INTERRUPTED if progress.stopped == "interrupted" else Exit.LM
        return Generated(result, text, code, f"{message}. {RERUN}" if stages.lm is not None else message)
    return Generated(result, text, Exit.NO if result["unsolved"] else Exit.OK, message)


def _asked(stages: Stages, progress: Progress) -> dict[str, Any]:
    """The program that was sampled, its LM, and the tokens."""
    attempts = [attempt for own in progress.attempts.values() for attempt in own]
    tokens = TokenCount.sum(count for attempt in attempts for count in attempt.tokens.values())
    return {
        "program": stages.lm and stages.lm.program,
        "lm": progress.lm,
        "tokens": {"prompt": tokens.prompt, "completion": tokens.completion, "cached": tokens.cached},
        "tokens_estimated": tokens.estimated,
        "cost_usd": tokens.cost,
    }


def _task_json(task: Task, stages: Stages, progress: Progress, written: WrittenOffer | None) -> dict[str, Any]:
    name, language = task.name, stages.lm.language if stages.lm else None
    attempts = progress.attempts.get(name, [])
    search, split = progress.searches.get(name), progress.splits.get(name)
    advice = None if written else progress.advice(task)
    chosen = {"demonstrations": progress.demonstrations[name]} if name in progress.demonstrations else {}
    return {
        "passed": written is not None,
        **(written.to_dict() if written else NO_OFFER),
        "seconds": round(progress.seconds.get(name, 0.0), 3),
        "answers": sum(attempt.scored for attempt in attempts),
        "temperature": next((attempt.temperature for attempt in attempts if attempt.passed), None),
        **summarize(attempts, language).to_dict(),
        "search": search and asdict(search),
        "split": split and as_json(split),
        "advice": advice and advice.to_dict(),
        **chosen,
    }


def _task_text(task: Task, stages: Stages, progress: Progress, written: WrittenOffer | None) -> Iterator[str]:
    """The program of a task or the files that it was written to, or why there is none and what to do."""
    name = task.name
    if written is not None:
        yield f"{name}: verified, found by {written.offer.best.by} ({written.offer.best.detail})"
        yield from (f"  {line}" for line in written.lines())
        return
    yield f"{name}: no verified program"
    failures = summarize(progress.attempts.get(name, []), stages.lm.language if stages.lm else None)
    if stages.lm is not None:
        yield from failures.counted()
    if (search := progress.searches.get(name)) is not None:
        yield f"  search: {counted(search.candidates, 'candidate')} in {search.seconds:.1f} s: {why(search)}"
    if name in progress.splits:
        yield f"  {headline(name, progress.splits[name]).removeprefix(f'{name}: ')}"
    if (advice := progress.advice(task)) is not None:
        yield from advice.lines()
    yield from failures.shown(MAX_FAILURES if stages.searching is None else 1)
