"""What `pipeline.generate` writes and reports: the files of programs, and the result of each task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from optimizers import TokenCount
from pipeline.actions.advice import Advice, advise
from pipeline.actions.generate_programs import Generation, Result
from pipeline.actions.solutions import write_solution
from pipeline.base.errors import Exit, UsageError, print_message
from pipeline.base.outputs import brief, warnings_json
from pipeline.base.paths import shown
from pipeline.base.text import exact_number
from pipeline.languages import registry
from pipeline.languages.language import Task
from pipeline.reporting.failures import MAX_FAILURES, summarize
from pipeline.running.plan import RERUN
from step_runtime.base.errors import Diagnostic
from step_runtime.base.units import TRADED
from step_runtime.tasks.task import Task as StepTask

Files = Mapping[str, Sequence[Path]]
Doubts = Mapping[str, Sequence[Diagnostic]]
"""Files, and warnings, by the name of their task."""


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
    own = registry.suffix(language)
    endings = {"yaml": (".yaml",), "text": (own,), "both": (".yaml", own)}[form]
    files = {task.name: [Path(output, f"{task.name}{ending}") for ending in endings] for task in tasks}
    existing = [path for paths in files.values() for path in paths if path.exists()]
    if existing and not force:
        more = f" and {len(existing) - 1} more" if len(existing) > 1 else ""
        raise UsageError(f"{existing[0]} exists{more}; use --force to overwrite, or another folder for -o")
    return files


def write(run: Generation, files: Files, texts: Mapping[str, str]) -> None:
    """Writes the programs found to each task's files, in which comments of the task files' `texts` are kept.

    Raises:
        UsageError: A file can't be written.
    """
    for task in run.tasks:
        if (solution := run.results[task.name].solution) is not None:
            write_solution(task, solution.impl, files[task.name], texts.get(task.name))


def as_json(run: Generation, files: Files, doubts: Doubts) -> dict[str, Any]:
    """The results for machines; `doubts` are warnings about the tasks themselves."""
    found = {name: own.solution.findings if own.solution else () for name, own in run.results.items()}
    return {
        "solved": [name for name, own in run.results.items() if own.solution],
        "unsolved": [name for name, own in run.results.items() if not own.solution],
        "tasks": {task.name: _as_json(task, run, files[task.name]) for task in run.tasks},
        "warnings": warnings_json({name: [*doubts.get(name, ()), *own] for name, own in found.items()}),
        **(_asked(run) if run.lm is not None else {}),
    }


def text(run: Generation, files: Files, doubts: Doubts) -> str:
    """The results for people."""
    texts = ["\n".join(_lines(task, run, files[task.name])) for task in run.tasks]
    doubtful = [f"{name}: warning: {brief(each)}" for name, found in doubts.items() for each in found]
    return "\n\n".join([*texts, *(["\n".join(doubtful)] if doubtful else [])])


def exit_code(name: str, run: Generation) -> Exit:
    """The exit code; what ended the command early is reported on stderr."""
    if run.stopped:
        ended = run.stopped != "budget" and run.lm is not None
        message = f"{run.message}; verified programs are kept, see above"
        print_message(name, f"{message}. {RERUN}" if ended else message)
    if run.stopped in ("interrupted", "failed"):
        return Exit.INTERRUPTED if run.stopped == "interrupted" else Exit.LM
    return Exit.OK if all(own.solution for own in run.results.values()) else Exit.NO


def _asked(run: Generation) -> dict[str, Any]:
    """The program that was sampled, its LM, and the tokens."""
    attempts = [attempt for result in run.results.values() for attempt in result.attempts]
    tokens = TokenCount.sum(count for attempt in attempts for count in attempt.tokens.values())
    return {
        "program": run.lm and run.lm.program,
        "lm": run.asked,
        "tokens": {"prompt": tokens.prompt, "completion": tokens.completion, "cached": tokens.cached},
        "tokens_estimated": tokens.estimated,
        "cost_usd": tokens.cost,
    }


def _advice(task: Task, run: Generation, result: Result) -> Advice | None:
    """Advice on an unsolved task; None for a task of another language."""
    if not isinstance(task, StepTask) or result.solution is not None:
        return None
    return advise(task, result.attempts, run.proposer, result.search, result.split)


def _as_json(task: Task, run: Generation, files: Sequence[Path]) -> dict[str, Any]:
    result, advice = run.results[task.name], _advice(task, run, run.results[task.name])
    solution, attempts = result.solution, result.attempts
    return {
        "passed": solution is not None,
        "impl": solution and solution.impl,
        "draft": solution and solution.draft,
        "found_by": solution and solution.by,
        "detail": solution and solution.detail,
        "rewrites": solution and list(solution.rewrites),
        "cost": solution and (dict(solution.figures) or None),
        "files": [str(file) for file in files] if solution else [],
        "answers": sum(attempt.scored for attempt in attempts),
        "temperature": next((attempt.temperature for attempt in attempts if attempt.passed), None),
        **summarize(attempts, run.lm.language if run.lm else None).to_dict(),
        "search": result.search and asdict(result.search),
        "split": result.split and result.split.to_dict(),
        "advice": advice and advice.to_dict(),
        **({"demonstrations": result.shown} if result.shown is not None else {}),
    }


def _lines(task: Task, run: Generation, files: Sequence[Path]) -> Iterator[str]:
    """The program of a task or the files that it was written to, or why there is none and what to do."""
    result, name = run.results[task.name], task.name
    if (solution := result.solution) is not None:
        yield f"{name}: verified, found by {solution.by} ({', '.join([solution.detail, *solution.rewrites])})"
        yield from (f"  {line}" for line in [shown(file) for file in files] or solution.impl.strip().splitlines())
        if solution.figures:
            yield f"  cost: {', '.join(f'{each} {exact_number(solution.figures[each])}' for each in TRADED)}"
        yield from (f"  warning: {brief(finding)}" for finding in solution.findings)
        return
    yield f"{name}: no verified program"
    failures = summarize(result.attempts, run.lm.language if run.lm else None)
    if run.lm is not None:
        yield from failures.counted()
    if result.search is not None:
        yield f"  search: {result.search.headline}"
    if result.split is not None:
        yield f"  splitting: {result.split.headline}"
        if result.split.reached is not None:
            reached, program = result.split.reached
            yield f"  as far as `{reached}`, the last value made:"
            yield from (f"    {line}" for line in program.strip().splitlines())
    if (advice := _advice(task, run, result)) is not None:
        yield from advice.lines()
    yield from failures.shown(MAX_FAILURES if run.searching is None else 1)
