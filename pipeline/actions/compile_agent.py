"""`pipeline.compile`: a new run of an optimizer, or one that is resumed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from optimizers import Attempt, Entry, Experience, TokenCount
from pipeline.actions.advice import advise
from pipeline.agent.compiled import make_agent, parse_program
from pipeline.base.config import RunConfig
from pipeline.base.errors import Exit, UsageError, print_message
from pipeline.base.files import shown, write_text
from pipeline.base.outputs import warnings_json
from pipeline.base.settings import SELECTIONS, is_embedded
from pipeline.base.text import console, counted, figures_table, print_lines
from pipeline.cli.progress import ProgressDisplay
from pipeline.cluster.cluster import open_workers
from pipeline.record import resume as earlier_runs
from pipeline.record import store
from pipeline.record.attempts import read_attempts
from pipeline.record.logged_models import register
from pipeline.record.mlflow_metrics import is_proved
from pipeline.record.models import log_model
from pipeline.record.request import Request
from pipeline.record.resume import Finished, Resumed
from pipeline.running.gate import Gate
from pipeline.running.job import JobResult, program_path, resamples, start_job
from pipeline.running.plan import Plan, resolved
from pipeline.verification.claims import listed
from pipeline.verification.pool import LocalWorkers
from pipeline.verification.task_files import load_tasks, load_with_warnings

if TYPE_CHECKING:
    from rich.table import Table

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
    return figures(result) | {"advice": advice, "warnings": warnings_json(doubts)}


def print_summary(result: JobResult) -> None:
    """Prints the result, and advice on unsolved tasks."""
    print_figures(result)
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


# --- a run's result: a table for people, or one JSON object, on stdout ------------------------------------------------

_BAR = 26
"""Characters of a full bar."""


def figures(result: JobResult) -> dict[str, Any]:
    """The result for machines: `run_id`, `program` (its path), solved and unsolved tasks, and the run's figures."""
    experience = result.experience
    tokens = TokenCount.sum(experience.tokens.values())
    return {
        "run_id": result.run_id,
        "program": str(result.program),
        "solved": list(experience.solved),
        "unsolved": list(experience.unsolved),
        "solved_earlier": list(experience.solved_earlier),
        "taught": list(experience.taught),
        "pass_at_1": experience.pass_at(1),
        "pass_at_n": experience.pass_at(),
        "iterations": len(experience.iterations),
        "tokens": {"prompt": tokens.prompt, "completion": tokens.completion, "cached": tokens.cached},
        "tokens_estimated": tokens.estimated,
        "probe": {"prompt": result.probe.prompt, "completion": result.probe.completion},
        "cost_usd": tokens.cost,
        "costs": experience.costs,
        "seconds": round(experience.seconds, 3),
        "stopped": experience.stopped,
        "message": experience.message,
        "composed": {name: list(parts) for name, parts in _composed(experience).items()},
        "subtasks": _subtasks(experience),
        "held_out": _held_out_as_json(experience),
        "refused": [refusal.to_dict() for refusal in result.refused],
    }


def counts_as_text(tokens: TokenCount) -> str:
    """Tokens and dollars for people."""
    cost = "" if tokens.cost is None else f", {tokens.cost:.2f} USD"
    estimated = f" ({tokens.estimated:,} estimated, as the LM did not report them)" if tokens.estimated else ""
    short = f"; impossible counts: {tokens.short:,} fewer than these texts take" if tokens.short else ""
    answers = counted(tokens.calls - tokens.failed, "answer")
    cached = f"; {tokens.cache_hits:,} of {answers} from the cache" if tokens.cache_hits else ""
    return f"{tokens.prompt:,} in, {tokens.completion:,} out{estimated}{short}{cost}{cached}"


def print_figures(result: JobResult) -> None:
    """Prints which tasks are solved and how often, where the program is, and how to view the record."""
    experience, stdout = result.experience, console()
    table = figures_table("task", "right answers", "temperature", "solved in iteration")
    entries = {entry.task_key: entry for entry in experience.entries}
    for key in experience.tasks:
        table.add_row(key, *_cells(entries.get(key), key in experience.solved_earlier))
    stdout.print()
    stdout.print(table)
    stdout.print()
    stdout.print(_curve(experience, ascii_only=stdout.options.ascii_only))
    if any(iteration.demos or iteration.reasons for iteration in experience.iterations):
        rerun = f"--optimizer none --match-tokens {result.run_id[:8]}"
        print_lines(stdout, f"to measure the gain from demonstrations, run the command again with {rerun}")
    solved, total = len(experience.solved), len(experience.tasks)
    refused, taught = result.refused, len(experience.taught)
    unknown = sum(iteration.unknown for iteration in experience.iterations)
    print_lines(
        stdout,
        "",
        *([f"refused  {counted(len(refused), 'program')} of earlier records:", *listed(refused)] if refused else []),
        f"solved {solved} of {counted(total, 'task')} in {_duration(experience.seconds)}: {experience.message}",
        *([f"taught   {counted(taught, 'task')} by the teacher, not sampled from the LM"] if taught else []),
        *_subtask_lines(experience),
        *([f"unknown  {counted(unknown, 'answer')} without a verdict, not counted"] if unknown else []),
        *_held_out_lines(experience),
        f"tokens   {counts_as_text(TokenCount.sum(experience.tokens.values()))}",
        f"program  {shown(result.program)}   (load it with pipeline.load_program)",
        f"record   run {result.run_name!r}; view it with: python -m pipeline.ui",
    )


def _composed(experience: Experience) -> dict[str, tuple[str, ...]]:
    """The tasks whose answers are composed, each with the sub-tasks."""
    return {entry.task_key: entry.composed_from for entry in experience.entries if entry.composed_from}


def _subtasks(experience: Experience) -> dict[str, bool]:
    """The sub-tasks that were sampled, in the order in which they entered, each with whether it is solved."""
    solved = {key for result in experience.iterations for key in result.solved_parts}
    sampled = (key for result in experience.iterations for key in result.tasks)
    return {key: key in solved for key in sampled if key not in experience.tasks}


def _subtask_lines(experience: Experience) -> list[str]:
    """The sub-tasks by their number, and what is composed of them; none for a run without any."""
    found = _subtasks(experience)
    composed = [f"  {name} is composed of {', '.join(parts)}" for name, parts in _composed(experience).items()]
    return [f"split    {counted(len(found), 'sub-task')}, {sum(found.values())} solved", *composed] if found else []


def _held_out_as_json(experience: Experience) -> dict[str, Any]:
    """The quadrants, the solutions that are proved, and why others fall or stay unknown."""
    own = set(experience.tasks)
    verdicts = {e.task_key: e.held_out for e in experience.entries if e.task_key in own and e.held_out is not None}
    return {
        "quadrants": asdict(experience.quadrants),
        "proved": [name for name, verdict in verdicts.items() if is_proved(verdict)],
        "fallen": {name: verdict.reason for name, verdict in verdicts.items() if verdict.answer == "failed"},
        "unknown": {name: verdict.reason for name, verdict in verdicts.items() if verdict.answer == "unknown"},
    }


def _held_out_lines(experience: Experience) -> list[str]:
    """Solutions and refused answers by the verdict on what was held out; none for a run without such verdicts."""
    found, quadrants = _held_out_as_json(experience), experience.quadrants
    if quadrants.unjudged == len(experience.solved):
        return []
    parts = [f"{quadrants.both} of {counted(len(experience.solved), 'solution')} pass ({len(found['proved'])} proved)"]
    parts += [f"{count} {what}" for count, what in (
        (quadrants.run_only, "fail"), (quadrants.unknown, "unknown"), (quadrants.unjudged, "not checked"),
    ) if count]  # fmt: skip
    if quadrants.gate_only is not None:
        passing = f"{quadrants.gate_only} pass" if quadrants.gate_only else "none passes"
        rechecked = counted(quadrants.gate_only + (quadrants.neither or 0), "rejected answer")
        parts.append(f"{rechecked} rechecked, {passing}")
    reasons = [
        f"  {name} {what}: {reason}"
        for what, key in (("fails, and is not a demonstration", "fallen"), ("is unknown", "unknown"))
        for name, reason in found[key].items()
    ]
    return [f"held-out check: {'; '.join(parts)}", *reasons]


def _curve(experience: Experience, *, ascii_only: bool) -> Table:
    """A row for each iteration: samples so far and solved tasks."""
    table, samples, total = figures_table("samples", "solved", "", texts=0), 0, len(experience.tasks)
    table.columns[1].justify = "left"
    full, empty = "#." if ascii_only else "█░"
    for iteration in experience.iterations:
        samples += iteration.samples
        solved = round(_BAR * iteration.solved_total / total) if total else 0
        table.add_row(f"{samples:,}", full * solved + empty * (_BAR - solved), f"{iteration.solved_total}")
    return table


def _cells(entry: Entry | None, earlier: bool) -> tuple[str, ...]:
    if entry is None:
        return "none", "", "unsolved"
    if entry.teacher is not None:
        return "", "", f"taught by {entry.teacher}"
    if entry.composed_from:
        return "composed", "", f"{entry.iteration + 1}"
    if earlier:
        return f"{entry.successes} of {entry.samples}", f"{entry.temperature}", "an earlier run"
    return f"{entry.successes} of {entry.samples}", f"{entry.temperature}", f"{entry.iteration + 1}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
