"""The MLflow metrics of an iteration and of a run, and the status and the description of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from optimizers import Experience, IterationResult, TokenCount
from optimizers.domain import HeldOutVerdict
from pipeline.base.text import cell, counted

STATUS = {"interrupted": "KILLED", "failed": "FAILED"}
"""MLflow's status of a run, by what stopped it; else `FINISHED`."""
WITHIN = (1.0, 1.1, 1.5, 2.0, 5.0)
"""The multiples of the bound of which the record says how many tasks are within, like KernelBench's fast_p."""


FIRST = ("demonstrations", "pass_at_1", "pass_at_1_pooled", "pass_at_n", "solved", "tokens_prompt_per_task")
"""The curves of a run that are there even where they are zero."""


def curves(metrics: Mapping[str, float], known: Collection[str] = ()) -> dict[str, float]:
    """An iteration's metrics as points of its run's curves, without those that were zero in all iterations so far.

    `known` are the names of the curves that have points.
    """
    return {name: value for name, value in metrics.items() if value or name in FIRST or name in known}


def iteration_metrics(result: IterationResult) -> dict[str, float]:
    """The metrics of an iteration.

    pass@k counts a task at its best temperature, its pooled form at all temperatures together.
    """
    tokens = TokenCount.sum(result.tokens.values())
    metrics: dict[str, float] = {
        "pass_at_1": result.pass_at_1,
        "pass_at_8": result.pass_at_8,
        "pass_at_n": result.pass_at_n,
        "solved": result.solved_total,
        "solved_new": len(result.solved),
        "demonstrations": len(result.demos),
        "tokens_prompt_per_task": result.tokens_prompt_per_task,
        "samples": result.samples,
        "samples_unscored": result.failures + result.unknown,
        "seconds": result.seconds,
        "seconds_sampling": result.seconds_sampling,
        "seconds_verifying": result.seconds_verifying,
        "requests": tokens.calls,
        "requests_failed": tokens.failed,
        "retries": tokens.retried,
        **_token_metrics(tokens),
    }
    if tokens.cost is not None:
        metrics["cost_usd"] = tokens.cost
    pooled = {"pass_at_1_pooled": result.pass_at_1_pooled, "pass_at_8_pooled": result.pass_at_8_pooled}
    return metrics | {name: value for name, value in pooled.items() if value is not None}


def cost_metrics(iterations: Sequence[IterationResult]) -> dict[str, float]:
    """The cost of the best answer to each solved task after the last iteration, if the run has an objective.

    `cost_of_first` is the curve of a run that learns to be cheap: the mean share of what a task's first answer cost.
    """
    result, first = iterations[-1], dict[str, float]()
    for each in reversed(iterations):
        first |= each.costs
    shares = [cost / first[task] if first[task] else 1.0 for task, cost in result.costs.items()]
    if not shares:
        return {}
    costs = {f"cost/{task}": cost for task, cost in result.costs.items()}
    return costs | {"tasks_improved": len(result.improved), "cost_of_first": sum(shares) / len(shares)}


def within_bounds(costs: Mapping[str, float], bounds: Mapping[str, float], tasks: int) -> dict[str, float]:
    """The shares of tasks whose best answer costs at most p times the bound, for some p.

    Tasks without a bound are never within one; the shares are taken over all `tasks`.
    """
    ratios = [cost / bounds[task] for task, cost in costs.items() if bounds.get(task)]
    return {f"within_{p:g}": sum(ratio <= p for ratio in ratios) / tasks for p in WITHIN} if bounds else {}


def predictor_metrics(result: IterationResult) -> dict[str, float]:
    """The calls and tokens of each predictor; the UI groups metrics by the part before the `/`."""
    return {
        f"{name}/{key}": value
        for name, count in result.tokens.items()
        for key, value in {"calls": count.calls, **_token_metrics(count)}.items()
    }


def run_metrics(experience: Experience) -> dict[str, float]:
    """The metrics of a run at its end, including an interrupted iteration and the tokens of every request.

    Counts of what did not happen are omitted: each would be a chart of zeros.
    """
    tokens = TokenCount.sum(experience.tokens.values())
    results: dict[str, float] = {
        "solved": len(experience.solved),
        "pass_at_1": experience.pass_at(1),
        "pass_at_1_pooled": experience.pass_at_pooled(1),
        "pass_at_n": experience.pass_at(),
        "seconds": experience.seconds,
        "samples": sum(result.samples for result in experience.iterations),
        "tokens": tokens.total,
    }
    counts = {"calls": tokens.calls, "retries": tokens.retried, "cost_usd": tokens.cost, **_token_metrics(tokens)}
    metrics = results | {name: value for name, value in counts.items() if value}
    return {f"total_{name}": value for name, value in metrics.items()}


def held_out_metrics(experience: Experience) -> dict[str, float]:
    """Solutions that pass, fall or stay unknown where they are judged once more, its seconds, and how many are proved.

    Zeros are omitted, and so is all where none was judged.
    """
    quadrants, own = experience.quadrants, set(experience.tasks)
    verdicts = [entry.held_out for entry in experience.entries if entry.task_key in own and entry.held_out is not None]
    if not verdicts:
        return {}
    counts = {
        "held_out_passed": quadrants.both,
        "held_out_failed": quadrants.run_only,
        "held_out_unknown": sum(verdict.answer == "unknown" for verdict in verdicts),
        "held_out_seconds": sum(each.details.get("seconds", 0.0) for each in [*verdicts, *experience.refused.values()]),
        "proved": sum(map(is_proved, verdicts)),
    }
    return {name: count for name, count in counts.items() if count}


def is_proved(verdict: HeldOutVerdict | None) -> bool:
    """Whether an answer was proved in exact arithmetic."""
    return verdict is not None and verdict.details.get("exact", {}).get("answer") == "proved"


def held_out_record(experience: Experience) -> dict[str, Any]:
    """The held-out verdicts on answers, as JSON data: the quadrants, the solutions and refused answers by task."""
    own = set(experience.tasks)
    solutions = {e.task_key: asdict(e.held_out) for e in experience.entries if e.task_key in own and e.held_out}
    refused = {name: asdict(verdict) for name, verdict in experience.refused.items()}
    return {"quadrants": asdict(experience.quadrants), "solutions": solutions, "refused": refused}


def _token_metrics(count: TokenCount) -> dict[str, float]:
    """The tokens; those that are estimated, and those that budgets count beyond the LM's, only where there are some."""
    optional = {"tokens_estimated": count.estimated, "tokens_short": count.short}
    known: dict[str, float] = {
        "tokens_prompt": count.prompt,
        "tokens_completion": count.completion,
        "tokens_cached": count.cached,
    }
    return known | {name: number for name, number in optional.items() if number}


def describe_iteration(result: IterationResult) -> str:
    """The description of an iteration's run, in Markdown."""
    shown, solved = (", ".join(map(cell, names)) or "nothing" for names in (result.demos, result.solved))
    tokens = TokenCount.sum(result.tokens.values()).total
    return f"**{cell(result.label)}** shows {shown}, and solves {solved}: {tokens:,} tokens, {result.seconds:.0f} s."


def describe(experience: Experience) -> str:
    """The description of a run, in Markdown."""
    done = f"{len(experience.solved)} of {counted(len(experience.tasks), 'task')} solved"
    took = counted(len(experience.iterations), "iteration")
    message = cell(experience.message[:1].upper() + experience.message[1:])
    lines = [f"**{done}** in {took}. {message}.", ""]
    if experience.entries:
        lines += ["| task | correct answers | temperature | iteration |", "|---|---|---|---|"]
    own = set(experience.tasks) - set(experience.solved_earlier)
    lines += [
        f"| {cell(entry.task_key)} | taught by {entry.teacher} | | |"
        if entry.teacher
        else f"| {cell(entry.task_key)} | {entry.successes} of {entry.samples} | {entry.temperature} |"
        f" {entry.iteration + 1 if entry.task_key in own else 'of an earlier run'} |"
        for entry in experience.entries
    ]
    for entry in experience.entries:
        if entry.held_out is not None and entry.fallen:
            reason = cell(entry.held_out.reason)
            lines += ["", f"{cell(entry.task_key)} fails on held-out data, and is not shown: {reason}."]
    if experience.validation:
        scores = ", ".join(f"{cell(level.label)} {level.score:.3g}" for level in experience.validation)
        lines += ["", f"Mean success rates on the validation set: {scores}."]
    if experience.unsolved:
        unsolved = ", ".join(map(cell, experience.unsolved))
        lines += [*[""][: len(experience.entries)], f"Unsolved: {unsolved}."]
    return "\n".join(lines)
