"""`pipeline.compile`: a new run of an optimizer, or one that is resumed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from optimizers import Attempt, Experience, TokenCount
from pipeline.actions.advice import advise
from pipeline.agent.compiled import make_agent, parse_program
from pipeline.base.choices import SELECTIONS, is_embedded
from pipeline.base.config import RunConfig
from pipeline.base.errors import Exit, UsageError, print_message
from pipeline.base.files import write_text
from pipeline.base.outputs import warnings_json
from pipeline.base.terminal import console, print_lines
from pipeline.base.text import counted
from pipeline.cli import summary
from pipeline.cli.progress import ProgressDisplay
from pipeline.cluster.cluster import open_workers
from pipeline.record import resume as earlier_runs
from pipeline.record import store
from pipeline.record.attempts import read_attempts
from pipeline.record.logged_models import register
from pipeline.record.models import log_model
from pipeline.record.request import Request
from pipeline.record.resume import Finished, Resumed
from pipeline.running.gate import Gate
from pipeline.running.job import JobResult, program_path, resamples, start_job
from pipeline.running.plan import Plan, resolved
from pipeline.verification.pool import LocalWorkers
from pipeline.verification.task_files import load_tasks, load_with_warnings

__all__ = ["as_json", "compile_agent", "exit_code", "prepare", "print_summary", "resume"]

MOST_ADVISED = 10
"""Unsolved tasks for which the summary says in words what to do; the JSON object has all."""

logging.getLogger("optimizers").addHandler(logging.NullHandler())  # the final message says what is logged


def prepare(config: RunConfig) -> Request:
    """A new run's request; the LM's full name is not known yet.

    Raises:
        UsageError: A task or an earlier run can't be used, or the optimizer has no use for an option.
    """
    if config.match_tokens is not None:
        config = matched(config, config.match_tokens)
    return checked(config)


def matched(config: RunConfig, run: str) -> RunConfig:
    """The settings with as many tokens as a recorded run took.

    Raises:
        UsageError: No such run has finished, or the settings limit tokens themselves.
    """
    if config.max_tokens_total is not None:
        raise UsageError("--max-tokens-total: expected it or --match-tokens, not both")
    run_id, tokens = earlier_runs.finished_tokens(run)
    return config.model_copy(update={"match_tokens": run_id, "max_tokens_total": tokens})


def checked(config: RunConfig) -> Request:
    """The request of these settings, which are those of a run to match, too; raises as `prepare`."""
    config.require_used()
    config = resolved(config)
    tasks, doubts = load_with_warnings(config.tasks, config.language)
    validation = load_tasks(config.validation, config.language) if config.validation else []
    experience = earlier_runs.load_experience(config.experience, tasks, config.language) if config.experience else None
    return Request(config, "", tasks, validation, experience, doubts=doubts)


def resume(run: str, given: Mapping[str, Any], force: bool = False) -> Resumed:
    """The recorded run to resume, with the changes that the options on the command line make.

    `force` takes it over where it is running.

    Raises:
        UsageError: No such run exists, or an option contradicts it.
    """
    resumed = earlier_runs.open_run(run)
    config = resumed.request.config.resumed(given)
    return replace(resumed, request=replace(resumed.request, config=config), force=force)


def compile_agent(
    name: str,
    plan: Request | Resumed,
    output: str | None,
    command: str,
    params: Mapping[str, object] = MappingProxyType({}),
) -> JobResult:
    """Runs the optimizer, or returns the recorded result of a run that has finished.

    `command` is recorded, as are the `params` of a new run, beside its settings. The program goes to the file `output`;
    None: to a file next to the store.

    Raises:
        LMUnavailable: The LM can't be used.
        ClusterUnavailable: The cluster can't be used.
        UsageError: A task or an option can't be used.
        RecordError: The record can't be written.
    """
    resumed = plan if isinstance(plan, Resumed) else None
    if resumed and resumed.finished:
        return _finished(name, resumed, resumed.finished, output)
    request = plan.request if isinstance(plan, Resumed) else plan
    made = Plan.of(request.config, resumed=resumed is not None)
    if resumed and request.lm != made.lm.model:
        raise UsageError(f"--resume: the run used {request.lm}, but this is {made.lm.model}, whose answers differ")
    chosen = {"choices": made.lm.choice_kind} if made.config.proposer == "typed" else {}
    request, recorded = replace(request, config=made.config, lm=made.lm.model), {"command": command, **params, **chosen}
    return _run(name, request, made, resumed, output, recorded)


def _finished(name: str, resumed: Resumed, finished: Finished, output: str | None) -> JobResult:
    language = resumed.request.config.language
    print_message(name, f"run {resumed.run_id} is already complete; no requests made; the record is unchanged")
    gate, source = Gate(LocalWorkers(), partial(print_message, name)), f"run {resumed.run_id}"
    agent = make_agent(parse_program(finished.program, source), source)
    gate.agent(agent, f"{source}, compiled.json")
    if gate.refused:
        raise UsageError(f"--resume: {source}: its compiled program shows wrong programs; start a new run")
    learned = gate.experience(
        finished.experience, resumed.request.tasks, f"{source}, experience.json", language=language
    )
    # As rates are, held-out verdicts of programs that pass are the record's.
    held_out = {entry.task_key: entry.held_out for entry in finished.experience.entries}
    entries = tuple(replace(entry, held_out=held_out[entry.task_key]) for entry in learned.entries)
    learned = replace(learned, entries=entries)
    with store.locked_run_folder(resumed.run_id):
        path = Path(output) if output else program_path(resumed.request.config, resumed.run_id)
        write_text(path, finished.program)
    client, experiment = store.open_store()
    if register_as := resumed.request.config.register_as:
        model_id = log_model(client, experiment, resumed.run_id, path)
        register(client, store.store_uri(), resumed.run_id, model_id, register_as)
    experience = replace(learned, attempts=read_attempts(client, resumed.run_id))
    return JobResult(resumed.request, experience, resumed.run_id, resumed.name, path, finished.probe, gate.refused)


def _run(
    name: str,
    request: Request,
    plan: Plan,
    resumed: Resumed | None,
    output: str | None,
    params: Mapping[str, object],
) -> JobResult:
    config, tasks = request.config, counted(len(request.tasks), "task")
    selection = "" if config.selection == SELECTIONS[0] else f"{config.selection} "
    levels = f"{selection}m={config.granularity} " if config.optimizer == "adaptive" else ""
    if resamples(config):
        levels = f"{selection}{_passes(config)} "
    title = f"{config.optimizer} {config.lm} {counted(config.samples, 'sample')} seed {config.seed} {levels}{tasks}"
    run_name = resumed.name if resumed else title
    samples = f"{counted(config.samples, 'sample')} at each temperature ({', '.join(map(str, config.temperatures))})"
    print_message(name, f"{tasks}, {plan.lm.model}, {samples}, seed {config.seed}")
    if config.proposer == "typed":
        print_message(name, f"the LM's server chooses lines by `{plan.lm.choice_kind}`")
    if plan.note:
        print_message(name, plan.note)
    if config.context is not None:
        limit = plan.lm.kwargs.get("max_tokens")
        answers = f", answers of up to {limit:,}" if limit else ""
        print_message(
            name, f"context window of {config.context:,} tokens{answers}; demonstrations that don't fit are left out"
        )
    with (
        open_workers(config, name) as workers,
        start_job(request, plan, run_name, params, resumed, workers, partial(print_message, name)) as job,
    ):
        state = f"resumes with {job.recorder.answers:,} recorded answers" if resumed else "starts"
        print_message(name, f"run {job.run_id} {state}; if interrupted, resume with: {_resume_command(job.run_id)}")
        with ProgressDisplay(config.samples) as display:
            return job.run([display], Path(output) if output else None)


def _passes(config: RunConfig) -> str:
    """How long a run without learning goes on, for its name."""
    if config.max_iterations is not None:
        return "1 pass" if config.max_iterations == 1 else f"{config.max_iterations:,} passes"
    return "tokens matched" if config.match_tokens else "passes"


def as_json(result: JobResult, plan: Request | Resumed) -> dict[str, Any]:
    """The result for machines, with advice on each unsolved task and the warnings about tasks."""
    doubts = (plan.request if isinstance(plan, Resumed) else plan).doubts
    advice = {name: advice.to_dict() for name, advice in _advice(result).items()}
    return summary.as_json(result) | {"advice": advice, "warnings": warnings_json(doubts)}


def print_summary(result: JobResult) -> None:
    """Prints the result, and advice on unsolved tasks."""
    summary.print_summary(result)
    advice, stdout = _advice(result), console()
    for name, each in list(advice.items())[:MOST_ADVISED]:
        print_lines(stdout, "", f"{name}: unsolved", *each.render().splitlines())
    if len(advice) > MOST_ADVISED:
        print_lines(stdout, "", f"… and {counted(len(advice) - MOST_ADVISED, 'more unsolved task')}, see --json")


def _advice(result: JobResult) -> dict[str, Any]:
    """Advice on each unsolved task that has attempts."""
    config, left = result.request.config, result.experience.unsolved
    unsolved = {task.name: task for task in result.request.tasks if task.name in left}
    attempts: dict[str, list[Attempt]] = {name: [] for name in unsolved}
    for attempt in result.experience.attempts if unsolved else ():
        if attempt.task_key in attempts and attempt.iteration >= 0:
            attempts[attempt.task_key].append(attempt)
    if config.language is not None:
        return {}
    asked: dict[str, Any] = {name: task for name, task in unsolved.items() if attempts[name]}
    proposer = None if is_embedded(config.lm) else config.proposer
    return {name: advise(task, attempts[name], proposer=proposer) for name, task in asked.items()}


def exit_code(name: str, result: JobResult) -> Exit:
    """The exit code; anything out of the ordinary is reported on stderr."""
    experience = result.experience
    total = TokenCount.sum(experience.tokens.values())
    if total.truncated:
        print_message(name, f"{total.truncated:,} of {total.calls:,} answers were truncated; raise --max-tokens")
    if code := ended_early(name, experience, _resume_command(result.run_id)):
        return code
    return Exit.OK if experience.solved else Exit.NO


def ended_early(name: str, experience: Experience, resume_command: str) -> Exit | None:
    """The exit code of a run that was interrupted, has failed or has sampled nothing, which is reported on stderr."""
    if experience.stopped in ("interrupted", "failed"):
        print_message(name, f"{experience.message}; the results so far are kept. To resume: {resume_command}")
        return Exit.INTERRUPTED if experience.stopped == "interrupted" else Exit.LM
    if experience.stopped == "budget" and not experience.attempts:
        print_message(name, f"{experience.message} before any answer was sampled")
        return Exit.LM
    return None


def _resume_command(run_id: str) -> str:
    return f"python -m pipeline.compile --resume {run_id[:8]}"
