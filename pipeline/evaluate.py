"""`python -m pipeline.evaluate --program P`: how often a program is right, and how varied its answers are.

One pass over the tasks, by the machinery that a compile uses: answers, counts and tokens are those that it would have.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.base.errors import Exit, start, tell
from pipeline.base.files import write_text
from pipeline.cli import options
from pipeline.running import session

if TYPE_CHECKING:
    from rich.console import Console

    from optimizers import Experience
    from step_runtime.tasks.task import Task

NAME = "pipeline.evaluate"
EPILOG = """\
examples:
  python -m pipeline.evaluate --program mlruns/programs/adaptive-embedded-1234abcd.json
  python -m pipeline.evaluate --program none --tasks 'gemm/*' my_task.yaml --samples 16 --temperatures 0.7 --json

exit codes: 0 the figures are printed, whatever they are, 2 a bad option or file, 3 the LM can't be used,
130 interrupted (the figures are of what was done)"""


class Arguments(session.Arguments):
    """The command's options, as parsed."""

    tasks: list[str] | None
    json: bool
    output: str | None
    record: bool


def make_parser() -> options.Parser:
    """The command's options."""
    parser = options.Parser(NAME, "Measures a program on tasks: pass@k in total, by group and by class.", EPILOG)
    session.add_options(parser)
    options.add_tasks(parser)
    options.add_json(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=options.writable_file, help="write the JSON object to a file, too"
    )
    parser.add_argument("--record", action="store_true", help="record it like a compile, for the UI and the report")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Evaluates; see the exit codes."""
    args = make_parser().parse_args(argv, namespace=Arguments())

    from rich.console import Console

    from pipeline.record.metrics import counted
    from pipeline.verification.task_files import load_tasks

    tasks = load_tasks(args.tasks)
    asked = session.make(args)
    tell(NAME, f"{counted(len(tasks), 'task')}, program {args.program}, {asked.lm.model}, seed {args.seed}")
    command = shlex.join(sys.argv[1:] if argv is None else argv)
    experience, run_id = _evaluate(args, asked, tasks, command)
    result = figures(experience, tasks) | {"program": args.program, "lm": asked.lm.model, "run_id": run_id}
    if args.json:
        print(json.dumps(result))
    else:
        print_figures(result, Console(width=None if sys.stdout.isatty() else 120))
    if args.output is not None:
        write_text(Path(args.output), json.dumps(result, indent=1) + "\n")
    return _end(experience)


def figures(experience: Experience, tasks: Sequence[Task]) -> dict[str, Any]:
    """The figures of one pass, as the command's JSON object; all follow from the attempts.

    `by_class` holds the tasks whose class is known, by their oracle.
    """
    from optimizers import TokenCount
    from pipeline.reporting import measures

    names = measures.in_group_order(task.name for task in tasks)
    attempts = experience.attempts  # of the one pass; they lie in a file
    counts = measures.best_counts(attempts)
    solved = {name for name, count in counts.items() if count.successes}
    tokens = TokenCount.sum(experience.tokens.values())
    inputs = {task.name: [spec.name for spec in task.inputs] for task in tasks}
    return {
        **asdict(measures.score(names, counts)),
        "solved": [name for name in names if name in solved],
        "unsolved": [name for name in names if name not in solved],
        "by_group": {k: asdict(s) for k, s in measures.scores_by(measures.group_of, names, counts).items()},
        "by_class": {k: asdict(s) for k, s in sorted(measures.scores_by(measures.class_of, names, counts).items())},
        "by_task": {name: _task(name, counts) for name in names},
        "diversity": asdict(measures.diversity(attempts, inputs)),
        "samples": experience.settings["num_samples"],
        "temperatures": list(experience.settings["temperatures"]),
        "seed": experience.settings["seed"],
        "answers": sum(attempt.scored for attempt in attempts),
        "without_answer": sum(not attempt.scored for attempt in attempts),
        "tokens": {"prompt": tokens.prompt, "completion": tokens.completion, "cached": tokens.cached},
        "tokens_by_module": {
            name: {"calls": c.calls, "prompt": c.prompt, "completion": c.completion, "cached": c.cached}
            for name, c in experience.tokens.items()
        },
        "cost_usd": tokens.cost,
        "seconds": round(experience.seconds, 3),
    }


def print_figures(result: dict[str, Any], console: Console) -> None:
    """Prints them as tables: in total, by group and by class, then task by task."""
    from rich.table import Table

    n = result["samples"]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    ks = ("1", "8", "n") if n > 8 else ("1", "n")
    for heading in ("tasks", "solved", *(f"pass@{n if k == 'n' else k}" for k in ks)):
        table.add_column(heading, justify="right")
    for key in ("by_group", "by_class"):
        for name, score in result[key].items():
            table.add_row(name, *_cells(score, ks))
        table.add_section()
    total = {"tasks": len(result["by_task"]), "solved": len(result["solved"])}
    table.add_row("all", *_cells(result | total, ks), style="bold")
    tasks = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("task", "class", "right answers", "temperature", "pass@1", f"pass@{n}"):
        tasks.add_column(heading, justify="left" if heading in ("task", "class") else "right")
    for name, task in result["by_task"].items():
        right = f"{task['correct']} of {task['samples']}" if task["samples"] else "no answer"
        warmth = str(task["temperature"]) if task["correct"] else ""
        tasks.add_row(name, task["class"] or "", right, warmth, f"{task['pass_at_1']:.3f}", f"{task['pass_at_n']:.0f}")
    console.print(table, "", tasks, "", sep="\n")
    told = ", ".join(f"{key} {'none' if v is None else f'{v:.3f}'}" for key, v in result["diversity"].items())
    cost = "" if result["cost_usd"] is None else f", {result['cost_usd']:.2f} USD"
    tokens = result["tokens"]
    lines = [
        f"diversity  {told}   (distinct syntax trees per answer)",
        f"tokens     {tokens['prompt']:,} in, {tokens['completion']:,} out, {tokens['cached']:,} cached{cost}",
    ]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _evaluate(
    args: Arguments, asked: session.Asked, tasks: Sequence[Task], command: str
) -> tuple[Experience, str | None]:
    """The record of the pass, and the id of its run in the store, if it was to be recorded."""
    import dspy
    from rich.console import Console

    from optimizers import Observer, SinglePass
    from pipeline.cli.progress import ProgressDisplay
    from pipeline.record.metrics import counted
    from pipeline.record.recorder import recorded

    name = f"evaluate {Path(args.program).stem} {counted(len(tasks), 'task')} {asked.lm.model}"
    trainset = [dspy.Example(task=task).with_inputs("task") for task in tasks]
    run_id = None
    with ExitStack() as stack:
        observers: list[Observer] = []
        if args.record:
            recorder = stack.enter_context(recorded(name, _params(args, asked, tasks, command), tasks))
            observers.append(recorder)
            run_id = recorder.run_id
        console = Console(stderr=True, width=None if sys.stderr.isatty() else 120)
        observers.append(stack.enter_context(ProgressDisplay(console, args.samples)))
        metric = asked.agent.judge.metric = stack.enter_context(session.working(asked.lm, args.verdict_cache))
        asked.agent.judge.tasks = list(tasks)
        optimizer = SinglePass(
            metric,
            args.samples,
            temperatures=args.temperatures,
            threads=asked.threads,
            seed=args.seed,
            budget=session.budget(args),
            domain=session.domain(),
            observers=observers,
        )
        experience: Experience = optimizer.compile(asked.agent, trainset=trainset).experience
        return experience, run_id


def _params(args: Arguments, asked: session.Asked, tasks: Sequence[Task], command: str) -> dict[str, object]:
    """Everything that is needed to run it again."""
    from pipeline.base.versions import code_version, versions
    from pipeline.verification.task_files import digest

    return {
        "optimizer": "none",
        "command": f"python -m {NAME} {command}",
        "program": args.program,
        "lm": asked.lm.model,
        "guardian": asked.agent.guardian.mode,
        "proposer": asked.agent.proposer.kind,
        "refine": asked.agent.refine,
        "no_ir": not asked.agent.ir,
        "samples": args.samples,
        "temperatures": ",".join(map(str, args.temperatures)),
        "seed": args.seed,
        "threads": asked.threads,
        "tasks": ", ".join(task.name for task in tasks),
        "task_set_digest": digest(tasks),
        "code_version": code_version(),
        **versions(),
    }


def _task(name: str, counts: Any) -> dict[str, Any]:
    from pipeline.reporting import measures

    count, score = counts.get(name), measures.score([name], counts)
    return {
        "pass_at_1": score.pass_at_1,
        "pass_at_8": score.pass_at_8,
        "pass_at_n": score.pass_at_n,
        "correct": count.successes if count else 0,
        "samples": count.samples if count else 0,
        "temperature": count.temperature if count else None,
        "class": measures.class_of(name),
    }


def _cells(score: dict[str, Any], ks: Sequence[str]) -> tuple[str, ...]:
    return (str(score["tasks"]), str(score["solved"]), *(f"{score[f'pass_at_{k}']:.3f}" for k in ks))


def _end(experience: Experience) -> Exit:
    """The exit code, once stderr has been told what is not as it should be."""
    if experience.stopped in ("interrupted", "failed"):
        tell(NAME, f"{experience.message}; the figures above are of what was done. {session.GO_ON}")
        return Exit.INTERRUPTED if experience.stopped == "interrupted" else Exit.LM
    if experience.stopped == "budget":
        tell(NAME, f"{experience.message}; the figures above are of what was done")
        return Exit.OK if experience.attempts else Exit.LM
    return Exit.OK


if __name__ == "__main__":
    start(NAME, main)
