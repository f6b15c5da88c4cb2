"""`pipeline.generate`: programs for new tasks, from an LM or by classical synthesis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from optimizers import Sampling, TokenCount
from optimizers.sampling import Sampler
from optimizers.until_solved import UntilSolved, sample_until_solved
from pipeline.actions.generated import Generated, write_solution
from pipeline.base.config import ProgramConfig
from pipeline.base.errors import ClusterUnavailable, Exit, UsageError, print_message
from pipeline.base.paths import shown
from pipeline.record.metrics import counted
from pipeline.reporting.failures import summarize
from pipeline.running.session import RERUN, ProgramSession, budget, fitted, lm_session, open_program, trusted
from pipeline.running.workers import open_workers
from pipeline.synthesis import SearchBudget, SearchOutcome, results
from pipeline.synthesis.parallel_search import search_all
from pipeline.verification.checking import stress_findings
from pipeline.verification.task_files import load_tasks, texts_of
from pipeline.verification.workers import Workers
from step_runtime.base.errors import TaskError
from step_runtime.tasks.task import Task

__all__ = ["generate", "load_tasks", "output_files", "synthesize", "texts_of"]

ENDINGS = {"yaml": (".yaml",), "text": (".step",), "both": (".yaml", ".step")}
"""The suffixes of the files written for a task, by `--format`."""

Files = Mapping[str, Sequence[Path]]
"""Files by the name of their task."""


def output_files(tasks: Sequence[Task], output: str | None, form: str, *, force: bool) -> Files:
    """The files for each task's program; none if no folder is named.

    Args:
        tasks: The tasks to solve.
        output: The folder.
        form: `yaml`, `text` or `both`.
        force: Whether existing files may be overwritten.

    Raises:
        UsageError: A file exists and may not be overwritten.
    """
    if output is None:
        return {task.name: [] for task in tasks}
    files = {task.name: [Path(output, f"{task.name}{ending}") for ending in ENDINGS[form]] for task in tasks}
    existing = [path for paths in files.values() for path in paths if path.exists()]
    if existing and not force:
        more = f" and {len(existing) - 1} more" if len(existing) > 1 else ""
        raise UsageError(f"{existing[0]} exists{more}; use --force to overwrite, or another folder for -o")
    return files


def _written(task: Task, impl: str | None, files: Sequence[Path]) -> list[Path]:
    """Writes the task's program, if there is one, and returns the files written."""
    return [] if impl is None else write_solution(task, impl, files)


def generate(name: str, tasks: Sequence[Task], files: Files, config: ProgramConfig) -> Generated:
    """Samples a program until each task has a verified answer, and writes what was found.

    Args:
        name: The command's, for messages.
        tasks: The tasks to solve.
        files: Where the programs go.
        config: The program and the settings.

    Raises:
        UsageError: The program can't be used, a task's own code fails, or a file can't be written.
        LMUnavailable: The LM can't be used.
        ClusterUnavailable: The cluster can't be used.
    """
    with open_workers(config.cluster, name) as workers:
        return _generated(name, tasks, files, open_program(config, workers), workers)


def _generated(name: str, tasks: Sequence[Task], files: Files, session: ProgramSession, workers: Workers) -> Generated:
    config = session.config
    most = len(config.temperatures) * config.samples
    source = f"{session.lm.model}, program {config.program}"
    print_message(name, f"{counted(len(tasks), 'task')}, {source}, up to {most} answers per task")
    examples = {task.name: dspy.Example(task=task).with_inputs("task") for task in tasks}
    sampling = Sampling(config.samples, config.temperatures, session.threads, config.seed)
    agent, left_out = fitted(session, tasks)
    if left_out:
        print_message(name, left_out)
    with lm_session(session.lm, config.verdict_cache, workers) as metric:
        agent.verifier.metric, agent.verifier.tasks = metric, list(tasks)
        found = sample_until_solved(
            agent,
            examples,
            Sampler(trusted(metric.confirmed), sampling),
            lambda task: print_message(name, f"{task}: verified"),
            budget(session.config),
        )
    answers = {task.name: found.found(task.name) for task in tasks}
    impls = {task: str(answer.outputs["impl"]) if answer else None for task, answer in answers.items()}
    written = {task.name: _written(task, impls[task.name], files[task.name]) for task in tasks}
    result = _sampled_json(tasks, found, written) | {"program": config.program, "lm": session.lm.model}
    result["warnings"] = _warned(name, tasks, impls)
    text = "\n\n".join(_sampled_text(task.name, found, written[task.name]) for task in tasks)
    message = f"{found.message}; what was verified is kept, see above" if found.stopped else ""
    if found.stopped and found.stopped != "budget":
        code = Exit.INTERRUPTED if found.stopped == "interrupted" else Exit.LM
        return Generated(result, text, code, f"{message}. {RERUN}")
    return Generated(result, text, Exit.OK if all(answers.values()) else Exit.NO, message)


def _warned(name: str, tasks: Sequence[Task], impls: Mapping[str, str | None]) -> dict[str, list[str]]:
    """What goes wrong with the programs on stress inputs, by task; reported on stderr."""
    programs = [(task, impl) for task in tasks if (impl := impls.get(task.name)) is not None]
    warned = stress_findings(programs)
    for task, lines in warned.items():
        for line in lines:
            print_message(name, f"{task}: warning: {line}")
    return warned


def _sampled_json(tasks: Sequence[Task], found: UntilSolved, written: Files) -> dict[str, Any]:
    """Solved and unsolved names, then task by task the program, or why there is none."""
    attempts = [attempt for attempts in found.attempts.values() for attempt in attempts]
    tokens = TokenCount.sum(count for attempt in attempts for count in attempt.tokens.values())
    solved = [task.name for task in tasks if found.found(task.name)]
    return {
        "solved": solved,
        "unsolved": [task.name for task in tasks if task.name not in solved],
        "tasks": {task.name: _task_json(task.name, found, written[task.name]) for task in tasks},
        "tokens": {"prompt": tokens.prompt, "completion": tokens.completion, "cached": tokens.cached},
        "tokens_estimated": tokens.estimated,
        "cost_usd": tokens.cost,
    }


def _task_json(name: str, found: UntilSolved, files: Sequence[Path]) -> dict[str, Any]:
    attempts, answer = found.attempts[name], found.found(name)
    return {
        "passed": answer is not None,
        "impl": answer and answer.outputs["impl"],
        "temperature": answer and answer.temperature,
        "files": [str(file) for file in files],
        "answers": sum(attempt.scored for attempt in attempts),
        **summarize(attempts).to_dict(),
    }


def _sampled_text(name: str, found: UntilSolved, files: Sequence[Path]) -> str:
    """A task's program or the files that it was written to, or why there is none."""
    attempts, answer = found.attempts[name], found.found(name)
    if answer is None:
        return f"{name}: no verified program\n{summarize(attempts).render(name)}"
    head = f"{name}: verified, answer {attempts.index(answer) + 1}, temperature {answer.temperature}"
    lines = [shown(file) for file in files] or answer.outputs["impl"].strip().splitlines()
    return "\n".join([head, *(f"  {line}" for line in lines)])


def synthesize(
    name: str,
    tasks: Sequence[Task],
    files: Files,
    minutes: float | None,
    candidates: int | None,
    cluster: str | None = None,
) -> Generated:
    """Searches for each task's program without an LM, and writes what was found.

    Args:
        name: The command's, for messages.
        tasks: The tasks to solve.
        files: Where the programs go.
        minutes: Limit per task.
        candidates: Limit per task.
        cluster: As `--cluster` accepts it; None for this machine's cores.

    Raises:
        UsageError: A task's own code fails, or a file can't be written.
        ClusterUnavailable: The cluster can't be used.
    """
    default = SearchBudget()
    limits = SearchBudget(
        minutes * 60 if minutes else default.seconds, candidates or default.candidates, default.numbers
    )
    bounds = f"up to {limits.seconds:g} s and {limits.candidates:,} candidates per task"
    print_message(name, f"classical synthesis, {counted(len(tasks), 'task')}, {bounds}")
    outcomes: dict[str, SearchOutcome] = {}
    stopped, code = "", Exit.OK
    try:
        with open_workers(cluster, name) as workers:
            for task, outcome in search_all(tasks, limits, workers):
                outcomes[task.name] = outcome
                print_message(name, f"{task.name}: {'verified' if outcome.impl else results.why(outcome.reason)}")
    except TaskError as error:
        raise UsageError(str(error)) from None
    except ClusterUnavailable as error:
        if not outcomes:
            raise
        stopped, code = str(error), Exit.LM
    except KeyboardInterrupt:
        stopped, code = "interrupted", Exit.INTERRUPTED
    written = {
        task.name: _written(task, outcomes[task.name].impl, files[task.name]) for task in tasks if task.name in outcomes
    }
    text = "\n\n".join(
        results.as_text(task.name, outcomes.get(task.name), written.get(task.name, ())) for task in tasks
    )
    result = results.as_json(tasks, outcomes, written)
    result["warnings"] = _warned(name, tasks, {task: outcome.impl for task, outcome in outcomes.items()})
    if stopped:
        return Generated(result, text, code, f"{stopped}; what was verified is kept, see above")
    return Generated(result, text, Exit.OK if all(outcome.impl for outcome in outcomes.values()) else Exit.NO)
