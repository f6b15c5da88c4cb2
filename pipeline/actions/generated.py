"""What `pipeline.generate` writes and reports: the files of programs, and the result of each task."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from optimizers import TokenCount
from pipeline.actions.advice import Advice, advise
from pipeline.actions.generate_programs import Generation, Result
from pipeline.actions.solutions import write_solution
from pipeline.base.errors import Exit, UsageError
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
"""Files by the name of their task."""


@dataclass(frozen=True)
class Generated:
    """The results by task: for machines, for people, and as an exit code with a message for stderr."""

    as_json: Mapping[str, Any]
    text: str
    exit_code: Exit
    message: str = ""


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
    text = registry.suffix(language)
    endings = {"yaml": (".yaml",), "text": (text,), "both": (".yaml", text)}[form]
    files = {task.name: [Path(output, f"{task.name}{ending}") for ending in endings] for task in tasks}
    existing = [path for paths in files.values() for path in paths if path.exists()]
    if existing and not force:
        more = f" and {len(existing) - 1} more" if len(existing) > 1 else ""
        raise UsageError(f"{existing[0]} exists{more}; use --force to overwrite, or another folder for -o")
    return files


def generate(
    generation: Generation,
    proposer: str,
    files: Files,
    texts: Mapping[str, str],
    doubts: Mapping[str, Sequence[Diagnostic]],
) -> Generated:
    """Solves the tasks, and writes the programs to each task's files.

    Comments in the task files' `texts` are kept; `doubts` are warnings about the tasks themselves.

    Raises:
        UsageError: The program can't be used, a task's own code fails, or a file can't be written.
        LMUnavailable: The LM can't be used.
        ClusterUnavailable: The cluster can't be used.
    """
    start, run = time.monotonic(), generation
    run.run()
    for task in run.tasks:
        if (solution := run.results[task.name].solution) is not None:
            write_solution(task, solution.impl, files[task.name], texts.get(task.name))
    solved = [task.name for task in run.tasks if run.results[task.name].solution]
    found = {name: own.solution.findings for name, own in run.results.items() if own.solution}
    warnings = {name: [*doubts.get(name, ()), *found.get(name, ())] for name in run.results}
    result = {
        "proposer": proposer,
        "solved": solved,
        "unsolved": [name for name in run.results if name not in solved],
        "tasks": {task.name: _as_json(task, run, files[task.name]) for task in run.tasks},
        "warnings": warnings_json(warnings),
        "seconds": round(time.monotonic() - start, 3),
        **(_asked(run) if run.lm is not None else {}),
    }
    texts_ = ["\n".join(_lines(task, run, files[task.name])) for task in run.tasks]
    doubtful = [f"{name}: warning: {brief(each)}" for name, found in doubts.items() for each in found]
    text = "\n\n".join([*texts_, *(["\n".join(doubtful)] if doubtful else [])])
    message = f"{run.message}; verified programs are kept, see above" if run.stopped else ""
    if run.stopped in ("interrupted", "failed"):
        code = Exit.INTERRUPTED if run.stopped == "interrupted" else Exit.LM
        return Generated(result, text, code, f"{message}. {RERUN}" if run.lm is not None else message)
    return Generated(result, text, Exit.NO if result["unsolved"] else Exit.OK, message)


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
