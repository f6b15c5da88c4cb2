"""A run's result: a table for people, or one JSON object, on stdout."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from optimizers import Entry, Experience, TokenCount
from pipeline.base.paths import shown
from pipeline.base.terminal import console, figures_table, print_lines
from pipeline.base.text import counted
from pipeline.record.mlflow_metrics import is_proved
from pipeline.running.job import JobResult
from pipeline.verification.claims import listed

if TYPE_CHECKING:
    from rich.table import Table

_BAR = 26
"""Characters of a full bar."""


def as_json(result: JobResult) -> dict[str, Any]:
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


def print_summary(result: JobResult) -> None:
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
