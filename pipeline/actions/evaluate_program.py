"""`pipeline.evaluate`: one pass of a program over tasks, and its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

from optimizers import AdaptiveFewShot, Experience, Observer, TaskCount, TokenCount
from pipeline.agent.agent import demonstrated_predictors
from pipeline.agent.domain import examples, language_domain
from pipeline.base.config import ProgramConfig
from pipeline.base.errors import Exit, print_message
from pipeline.base.outputs import warnings_json
from pipeline.base.text import console, counted, figures_table, print_lines
from pipeline.cli.progress import ProgressDisplay
from pipeline.cluster.cluster import open_workers
from pipeline.languages.language import Task
from pipeline.record.recorder import recorded
from pipeline.reporting import pass_rates
from pipeline.running.job import run_params
from pipeline.running.plan import RERUN, Fitted, Plan, budget, trusted
from pipeline.verification.metric import Metric
from pipeline.verification.pool import Workers
from pipeline.verification.task_files import load_with_warnings
from step_runtime.base.errors import Diagnostic


@dataclass(frozen=True)
class Evaluation:
    """A pass of a program over tasks, with the warnings about them; `run_id` is that of its run, if it was recorded."""

    plan: Plan
    tasks: Sequence[Task]
    doubts: Mapping[str, Sequence[Diagnostic]]
    experience: Experience
    run_id: str | None


def evaluate_program(
    name: str, config: ProgramConfig, patterns: Sequence[str] | None, command: str | None
) -> Evaluation:
    """Samples the program on the tasks; None: on the benchmark.

    The run is recorded with its `command`; None: it is not recorded.

    Raises:
        UsageError: The program or a task can't be used.
        LMUnavailable: The LM can't be used.
        ClusterUnavailable: The cluster can't be used.
    """
    tasks, doubts = load_with_warnings(patterns, config.language)
    with open_workers(config, name) as workers:
        plan = Plan.of_program(config, workers, partial(print_message, name))
        return Evaluation(plan, tasks, doubts, *_evaluated(name, plan, tasks, command, workers))


def _evaluated(
    name: str, plan: Plan, tasks: Sequence[Task], command: str | None, workers: Workers
) -> tuple[Experience, str | None]:
    config = plan.config
    print_message(name, f"{counted(len(tasks), 'task')}, program {config.program}, {plan.lm.model}, seed {config.seed}")
    fit = plan.fitted(tasks)
    if fit.note:
        print_message(name, fit.note)
    run_name = f"evaluate {Path(config.program).stem} {counted(len(tasks), 'task')} {plan.lm.model}"
    run_id = None
    with ExitStack() as stack:
        observers: list[Observer] = []
        if command:
            params = run_params(plan, tasks, workers) | {"optimizer": "none", "command": command}
            recorder = stack.enter_context(recorded(run_name, params, tasks))
            observers.append(recorder)
            run_id = recorder.run_id
        observers.append(stack.enter_context(ProgressDisplay(config.samples)))
        metric = stack.enter_context(plan.session(workers))
        return sampled_once(plan, fit, tasks, metric, observers, plan.threads(workers)), run_id


def sampled_once(
    plan: Plan, fit: Fitted, tasks: Sequence[Task], metric: Metric, observers: Sequence[Observer], threads: int
) -> Experience:
    """The record of one pass of a program over tasks, in the context of its LM's plan."""
    config, agent = plan.config, fit.agent
    agent.verifier.metric, agent.verifier.tasks = metric, list(tasks)
    shown = demonstrated_predictors(agent) if fit.pool else ()  # else a program's demonstrations are unchanged
    domain = replace(language_domain(config.language), demo_predictors=shown)
    optimizer = AdaptiveFewShot(
        trusted(metric),
        config.samples,
        selection=fit.pool or "none",
        temperatures=config.temperatures,
        threads=threads,
        seed=config.seed,
        budget=budget(config),
        domain=domain,
        observers=observers,
        display_progress=False,
    )
    experience: Experience = optimizer.compile(agent, trainset=examples(tasks)).experience
    return experience


def figures(evaluation: Evaluation) -> dict[str, Any]:
    """The figures of the pass as the command's JSON object; all are computed from the attempts.

    `by_class` holds the tasks whose class is known, by their oracle.
    """
    experience, plan = evaluation.experience, evaluation.plan
    names = pass_rates.in_group_order(task.name for task in evaluation.tasks)
    attempts = experience.attempts
    counts = pass_rates.best_counts(attempts)
    solved = {name for name, count in counts.items() if count.successes}
    tokens = TokenCount.sum(experience.tokens.values())
    reasons = [own for result in experience.iterations for own in result.reasons.items()]
    chosen = {name: {"demonstrations": dict(shown)} for name, shown in reasons}
    tasks, class_of = {task.name: task for task in evaluation.tasks}, pass_rates.classes_in(plan.config.language)
    return {
        **asdict(pass_rates.score(names, counts)),
        "solved": [name for name in names if name in solved],
        "unsolved": [name for name in names if name not in solved],
        "by_group": {k: asdict(s) for k, s in pass_rates.scores_by(pass_rates.group_of, names, counts).items()},
        "by_class": {k: asdict(s) for k, s in sorted(pass_rates.scores_by(class_of, names, counts).items())},
        "by_task": {name: _task(name, counts, class_of(name)) | chosen.get(name, {}) for name in names},
        "diversity": pass_rates.diversity(attempts, tasks, plan.config.language),
        "samples": experience.settings["num_samples"],
        "temperatures": list(experience.settings["temperatures"]),
        "seed": experience.settings["seed"],
        "answers": sum(attempt.scored for attempt in attempts),
        "without_answer": sum(not attempt.scored for attempt in attempts),
        "tokens": {"prompt": tokens.prompt, "completion": tokens.completion, "cached": tokens.cached},
        "tokens_estimated": tokens.estimated,
        "tokens_by_module": {
            name: {"calls": c.calls, "prompt": c.prompt, "completion": c.completion, "cached": c.cached}
            for name, c in experience.tokens.items()
        },
        "cost_usd": tokens.cost,
        "seconds": round(experience.seconds, 3),
        "program": plan.config.program,
        "lm": plan.lm.model,
        "run_id": evaluation.run_id,
        "refused": [refusal.to_dict() for refusal in plan.refused],
        "warnings": warnings_json(evaluation.doubts),
    }


def _task(name: str, counts: Mapping[str, TaskCount], kind: str | None) -> dict[str, Any]:
    count, score = counts.get(name), pass_rates.score([name], counts)
    return {
        "pass_at_1": score.pass_at_1,
        "pass_at_8": score.pass_at_8,
        "pass_at_n": score.pass_at_n,
        "correct": count.successes if count else 0,
        "samples": count.samples if count else 0,
        "temperature": count.temperature if count else None,
        "class": kind,
    }


def print_figures(result: dict[str, Any]) -> None:
    """Prints them as tables: in total, by group and by class, then task by task."""
    n, stdout = result["samples"], console()
    ks = ("1", "8", "n") if n > 8 else ("1", "n")
    table = figures_table("", "tasks", "solved", *(f"pass@{n if k == 'n' else k}" for k in ks))
    for key in ("by_group", "by_class"):
        for name, score in result[key].items():
            table.add_row(name, *_cells(score, ks))
        table.add_section()
    total = {"tasks": len(result["by_task"]), "solved": len(result["solved"])}
    table.add_row("all", *_cells(result | total, ks), style="bold")
    stdout.print(table, "", _tasks_table(result["by_task"], n), "", sep="\n")
    diversity = ", ".join(f"{key} {'none' if v is None else f'{v:.3f}'}" for key, v in result["diversity"].items())
    cost = "" if result["cost_usd"] is None else f", {result['cost_usd']:.2f} USD"
    tokens = result["tokens"]
    print_lines(
        stdout,
        f"diversity  {diversity}   (distinct syntax trees per answer)",
        f"tokens     {tokens['prompt']:,} in, {tokens['completion']:,} out, {tokens['cached']:,} cached{cost}",
    )


def _tasks_table(by_task: Mapping[str, Mapping[str, Any]], n: int) -> Table:
    table = figures_table("task", "class", "right answers", "temperature", "pass@1", f"pass@{n}", texts=2)
    for name, task in by_task.items():
        right = f"{task['correct']} of {task['samples']}" if task["samples"] else "no answer"
        temperature = str(task["temperature"]) if task["correct"] else ""
        rates = (f"{task['pass_at_1']:.3f}", f"{task['pass_at_n']:.0f}")
        table.add_row(name, task["class"] or "", right, temperature, *rates)
    return table


def _cells(score: dict[str, Any], ks: Sequence[str]) -> tuple[str, ...]:
    return (str(score["tasks"]), str(score["solved"]), *(f"{score[f'pass_at_{k}']:.3f}" for k in ks))


def exit_code(name: str, evaluation: Evaluation) -> Exit:
    """The exit code; anything out of the ordinary is reported on stderr."""
    experience = evaluation.experience
    partial = f"{experience.message}; the figures above cover the answers so far"
    if experience.stopped in ("interrupted", "failed"):
        print_message(name, f"{partial}. {RERUN}")
        return Exit.INTERRUPTED if experience.stopped == "interrupted" else Exit.LM
    if experience.stopped == "budget":
        print_message(name, partial)
        return Exit.OK if experience.attempts else Exit.LM
    return Exit.OK
