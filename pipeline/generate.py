"""`python -m pipeline.generate TASK… --program P`: verified programs for tasks that nobody has solved yet.

- Nothing is shown or written as a solution that the verifier did not pass.
- A file that exists is left alone, unless `--force` is given; files are written whole or not at all.
- What was verified before an interrupt, or before the LM gave out, is written all the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.base.errors import Exit, UsageError, start, tell
from pipeline.base.files import write_text
from pipeline.base.machine import cores
from pipeline.base.paths import shown
from pipeline.cli import options
from pipeline.running import session

if TYPE_CHECKING:
    from optimizers.until_solved import UntilSolved
    from step_runtime.tasks.task import Task

NAME = "pipeline.generate"
EPILOG = """\
examples:
  python -m pipeline.generate my_task.yaml --program mlruns/programs/adaptive-embedded-1234abcd.json
  python -m pipeline.generate 'my_tasks/*.yaml' --program P -o solved --lm openai/gpt-4o --samples 16
  python -m pipeline.generate my_task.yaml --proposer search --max-minutes 5

exit codes: 0 every task has a verified program, 1 some task has none, 2 a bad option or file, 3 the LM can't be used,
130 interrupted (what was verified is kept)"""
ENDINGS = {"yaml": (".yaml",), "text": (".step",), "both": (".yaml", ".step")}


SEARCH_OPTIONS = {"task", "proposer", "max_minutes", "max_candidates", "output", "format", "force", "json"}
"""What else may be given with `--proposer search`, which asks no LM."""


class Arguments(session.Arguments):
    """The command's options, as parsed."""

    max_candidates: int | None
    task: list[str]
    output: str | None
    format: str
    force: bool
    json: bool


def make_parser() -> options.Parser:
    """The command's options."""
    parser = options.Parser(NAME, "Writes programs for tasks, and shows only those that pass the verifier.", EPILOG)
    parser.add_argument(
        "task", metavar="TASK", nargs="+", help="task files, folders, patterns, or benchmark names such as gemm/1"
    )
    session.add_options(parser, (*options.PROPOSERS, options.SEARCH))
    group = parser.add_argument_group(
        f"with `--proposer {options.SEARCH}`",
        "classical synthesis, which runs the task's functions and reference on data: no LM, no --program;"
        " --max-minutes is then for each task (default: 1)",
    )
    group.add_argument(
        "--max-candidates",
        metavar="N",
        type=options.at_least(1),
        help="streams computed for a task, at most; given the time, the same number gives the same result anywhere"
        " (default: 20 million)",
    )
    group = parser.add_argument_group("results")
    group.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=options.writable_folder,
        help="write them to files in this folder (default: on stdout alone)",
    )
    group.add_argument(
        "--format",
        choices=ENDINGS,
        default="yaml",
        help="`yaml`, the task with its program as `impl`; `text`, the program alone (default: %(default)s)",
    )
    group.add_argument("--force", action="store_true", help="overwrite files that exist")
    options.add_json(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Generates; see the exit codes."""
    parser = make_parser()
    args = parser.parse_args(argv, namespace=Arguments())
    _check_proposer(args, options.given(parser, argv))

    from pipeline.verification.task_files import load_tasks

    tasks = load_tasks(args.task)
    files = _files(args, tasks)
    if args.proposer == options.SEARCH:
        return _synthesize(args, tasks, files)
    asked = session.make(args)

    import dspy

    from optimizers import Sampling
    from optimizers.sampling import Sampler
    from optimizers.until_solved import sample_until_solved
    from pipeline.record.metrics import counted

    most = len(args.temperatures) * args.samples
    tell(NAME, f"{counted(len(tasks), 'task')}, {asked.lm.model}, program {args.program}, up to {most} answers a task")
    examples = {task.name: dspy.Example(task=task).with_inputs("task") for task in tasks}
    sampling = Sampling(args.samples, args.temperatures, asked.threads, args.seed)
    with session.working(asked.lm, args.verdict_cache) as metric:
        asked.agent.judge.metric, asked.agent.judge.tasks = metric, list(tasks)
        sampler, limits = Sampler(metric, sampling), session.budget(args)
        sampled = sample_until_solved(
            asked.agent, examples, sampler, lambda name: tell(NAME, f"{name}: verified"), limits
        )
    found = {task.name: sampled.found(task.name) for task in tasks}
    impls = {name: str(answer.outputs["impl"]) if answer else None for name, answer in found.items()}
    written = {task.name: _write(task, impls[task.name], files[task.name]) for task in tasks}
    if args.json:
        print(json.dumps(as_json(tasks, sampled, written) | {"program": args.program, "lm": asked.lm.model}))
    else:
        print("\n\n".join(described(task, sampled, written[task.name]) for task in tasks))
    return _end(tasks, sampled)


def _check_proposer(args: Arguments, given: set[str]) -> None:
    """Raises `UsageError` for options that the proposer has no use for, or lacks."""
    if args.proposer != options.SEARCH:
        if not args.program:
            raise UsageError(
                f"--program: name a compiled program, or `{session.NO_PROGRAM}` (--help shows the options)"
            )
        if args.max_candidates:
            raise UsageError("--max-candidates: only `--proposer search` counts candidates; leave the option out")
    for name in sorted(given - SEARCH_OPTIONS) if args.proposer == options.SEARCH else ():
        raise UsageError(f"--{name.replace('_', '-')}: `--proposer search` asks no LM; leave the option out")


def _synthesize(args: Arguments, tasks: Sequence[Task], files: dict[str, list[Path]]) -> int:
    """As `main`, without an LM."""
    from pipeline.synthesis import Budget, Outcome, results
    from pipeline.synthesis.session import search_all
    from step_runtime.base.errors import TaskError

    default = Budget()
    seconds = args.max_minutes * 60 if args.max_minutes else default.seconds
    budget = Budget(seconds, args.max_candidates or default.candidates, default.numbers)
    bounds = f"up to {seconds:g} s and {budget.candidates:,} candidates a task"
    tell(NAME, f"classical synthesis, tasks: {len(tasks)}, {bounds}")
    outcomes: dict[str, Outcome] = {}
    stopped = False
    try:
        for task, outcome in search_all(tasks, budget, min(cores(), len(tasks))):
            outcomes[task.name] = outcome
            tell(NAME, f"{task.name}: {'verified' if outcome.impl else 'nothing found'}")
    except TaskError as error:
        raise UsageError(str(error)) from None
    except KeyboardInterrupt:
        stopped = True
    written = {task.name: _write(task, outcomes[task.name].impl, files[task.name]) for task in tasks
               if task.name in outcomes}  # fmt: skip
    if args.json:
        print(json.dumps(results.as_json(tasks, outcomes, written)))
    else:
        print(
            "\n\n".join(results.told(task.name, outcomes.get(task.name), written.get(task.name, ())) for task in tasks)
        )
    if stopped:
        tell(NAME, "interrupted; what was verified is kept, see above")
        return Exit.INTERRUPTED
    return Exit.OK if all(outcome.impl for outcome in outcomes.values()) else Exit.NO


def as_json(tasks: Sequence[Task], sampled: UntilSolved, written: dict[str, list[Path]]) -> dict[str, Any]:
    """The result for machines: solved and unsolved names, then task by task the program, or why there is none."""
    from optimizers import TokenCount

    given = [attempt for attempts in sampled.attempts.values() for attempt in attempts]
    tokens = TokenCount.sum(count for attempt in given for count in attempt.tokens.values())
    solved = [task.name for task in tasks if sampled.found(task.name)]
    return {
        "solved": solved,
        "unsolved": [task.name for task in tasks if task.name not in solved],
        "tasks": {task.name: _task_json(sampled, task, written[task.name]) for task in tasks},
        "tokens": {"prompt": tokens.prompt, "completion": tokens.completion, "cached": tokens.cached},
        "cost_usd": tokens.cost,
    }


def described(task: Task, sampled: UntilSolved, files: Sequence[Path]) -> str:
    """The result of one task as text: its program and where it was written, or why there is none."""
    from pipeline.reporting.failures import summarize

    attempts, answer = sampled.attempts[task.name], sampled.found(task.name)
    if answer is None:
        return f"{task.name}: no verified program\n{summarize(attempts).render(task.name)}"
    head = f"{task.name}: verified, answer {attempts.index(answer) + 1}, temperature {answer.temperature}"
    if files:
        return "\n".join([head, *(f"  {shown(file)}" for file in files)])
    return f"{head}\n{_indented(answer.outputs['impl'])}"


def _files(args: Arguments, tasks: Sequence[Task]) -> dict[str, list[Path]]:
    """Where each task's results go; none without `-o`. Found out before anything is asked.

    Raises:
        UsageError: a file exists and may not be overwritten.
    """
    if args.output is None:
        return {task.name: [] for task in tasks}
    folder = Path(args.output)
    files = {task.name: [folder / f"{task.name}{ending}" for ending in ENDINGS[args.format]] for task in tasks}
    taken = [path for paths in files.values() for path in paths if path.exists()]
    if taken and not args.force:
        more = f" and {len(taken) - 1} more" if len(taken) > 1 else ""
        raise UsageError(f"{taken[0]} exists{more}; --force overwrites, another -o leaves it alone")
    return files


def _write(task: Task, impl: str | None, files: Sequence[Path]) -> list[Path]:
    """Writes the task's program, if there is one, and gives the files written."""
    from step_runtime.tasks.task import dump_task

    if impl is None:
        return []
    solved = task.model_copy(update={"impl": impl})
    for path in files:
        write_text(path, dump_task(solved) if path.suffix == ".yaml" else impl.rstrip() + "\n")
    return list(files)


def _task_json(sampled: UntilSolved, task: Task, files: Sequence[Path]) -> dict[str, Any]:
    from pipeline.reporting.failures import summarize

    attempts, answer = sampled.attempts[task.name], sampled.found(task.name)
    return {
        "passed": answer is not None,
        "impl": answer and answer.outputs["impl"],
        "temperature": answer and answer.temperature,
        "files": [str(file) for file in files],
        "answers": sum(attempt.scored for attempt in attempts),
        **summarize(attempts).to_dict(),
    }


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.strip().splitlines())


def _end(tasks: Sequence[Task], sampled: UntilSolved) -> Exit:
    """The exit code; stderr says why the command ended early, if it did."""
    solved = all(sampled.found(task.name) for task in tasks)
    if sampled.stopped == "budget":
        tell(NAME, f"{sampled.message}; what was verified is kept, see above")
    elif sampled.stopped:
        tell(NAME, f"{sampled.message}; what was verified is kept, see above. {session.GO_ON}")
        return Exit.INTERRUPTED if sampled.stopped == "interrupted" else Exit.LM
    return Exit.OK if solved else Exit.NO


if __name__ == "__main__":
    start(NAME, main)
