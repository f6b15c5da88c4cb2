"""`python -m pipeline.compile --optimizer NAME`: the main job.

Optimizes the agent on the tasks, records the run in MLflow, writes the compiled program, and prints where.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline import options
from pipeline.errors import Exit, LMUnavailable, UsageError, start

if TYPE_CHECKING:
    import dspy

    from optimizers import Experience, Observer
    from pipeline.agent import GuardianMode
    from step_runtime.task import Task

NAME = "pipeline.compile"
OPTIMIZERS = ("adaptive", "none")
EPILOG = """\
examples:
  python -m pipeline.compile --optimizer adaptive
  python -m pipeline.compile --optimizer adaptive --tasks 'gemm/*' my_task.yaml --samples 16
  OPENAI_API_KEY=... python -m pipeline.compile --optimizer adaptive --lm openai/gpt-4o --max-usd 5

exit codes: 0 some task is solved, 1 none is, 2 a bad option or file, 3 the LM can't be used,
130 interrupted (what was done is kept)"""

GO_ON = "To go on, run the same command again: answers that an LM was paid for come from the cache"


class Arguments(argparse.Namespace):
    """The command's options, as parsed."""

    optimizer: str
    lm: str
    api_base: str | None
    guardian: GuardianMode
    tasks: list[str] | None
    samples: int
    temperatures: tuple[float, ...]
    granularity: int
    threads: int | None
    seed: int
    max_iterations: int | None
    max_tokens_total: int | None
    max_usd: float | None
    max_minutes: float | None
    output: str | None
    json: bool


def make_parser() -> options.Parser:
    """The command's options."""
    parser = options.Parser(NAME, "Optimizes the agent on tasks: it learns from its own verified answers.", EPILOG)
    parser.add_argument(
        "--optimizer",
        choices=OPTIMIZERS,
        required=True,
        help="`adaptive`: adaptive self-improvement learning; `none`: a single pass without demonstrations",
    )
    options.add_tasks(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="where the compiled program goes (default: a new file in mlruns/programs)",
    )
    options.add_json(parser)
    options.add_lm(parser)
    options.add_sampling(parser)
    options.add_budget(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the job; see the exit codes."""
    args = make_parser().parse_args(argv, namespace=Arguments())
    if args.output:
        _check_output(Path(args.output))

    from pipeline.lm import make_lm
    from pipeline.tasks import load_tasks

    tasks = load_tasks(args.tasks)
    lm = make_lm(args.lm, args.api_base)
    return _run(args, tasks, lm, command=shlex.join(sys.argv[1:] if argv is None else argv))


def _check_output(path: Path) -> None:
    """Finds out before the run whether its result could be written."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"--output: there is no folder {folder}")
    if path.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise UsageError(f"--output: can't write the file {path}")


def _run(args: Arguments, tasks: Sequence[Task], lm: dspy.LM, command: str) -> int:
    import dspy
    from rich.console import Console

    from pipeline.program import save_program
    from pipeline.progress import ProgressDisplay
    from pipeline.summary import as_json, print_summary
    from pipeline.tracking import recorded

    name = f"{args.optimizer} {len(tasks)} tasks {args.lm}"
    drawn = f"{args.samples} samples at each temperature of {', '.join(map(str, args.temperatures))}"
    tell(f"{len(tasks)} tasks, {lm.model}, {drawn}, seed {args.seed}")
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 120)
    with recorded(name, _params(args, tasks, lm, command), tasks) as recorder:
        with ProgressDisplay(console, args.samples) as display:
            compiled = _compile(args, tasks, lm, [display, recorder])
        experience: Experience = compiled.experience
        program = Path(args.output) if args.output else _new_program_path(args, recorder.run_id)
        with dspy.context(lm=lm):
            save_program(compiled, program, _metadata(experience, recorder.run_id))
        recorder.log_program(program)
    if args.json:
        print(json.dumps(as_json(experience, recorder.run_id, program)))
    else:
        print_summary(experience, name, program, Console(width=None if sys.stdout.isatty() else 120))
    return _end(experience)


def _compile(args: Arguments, tasks: Sequence[Task], lm: dspy.LM, observers: Sequence[Observer]) -> dspy.Module:
    import dspy
    from dspy.utils.exceptions import LMError

    from optimizers import Budget, MetricError, registry
    from pipeline.agent import Agent
    from pipeline.domain import step_domain
    from pipeline.metric import Metric
    from signatures import YAMLAdapter
    from step_runtime.errors import TaskError

    trainset = [dspy.Example(task=task).with_inputs("task") for task in tasks]
    with dspy.context(lm=lm, adapter=YAMLAdapter()):
        optimizer = registry.get(args.optimizer)(
            metric=Metric(),
            num_samples=args.samples,
            granularity=args.granularity,
            temperatures=args.temperatures,
            threads=_threads(args),
            seed=args.seed,
            budget=Budget(args.max_iterations, args.max_tokens_total, args.max_usd, args.max_minutes),
            domain=step_domain(),
            observers=observers,
        )
        try:
            return optimizer.compile(Agent(args.guardian), trainset=trainset)
        except LMError as error:
            raise LMUnavailable(f"{args.lm}: {error}") from None
        except MetricError as error:
            if isinstance(error.__cause__, TaskError):
                raise UsageError(str(error.__cause__)) from None
            raise


def _threads(args: Arguments) -> int:
    """Requests in flight: the embedded LM computes, so that more than the cores would not help it; others wait."""
    return args.threads or (options.cores() if args.lm == "embedded" else 16)


def _params(args: Arguments, tasks: Sequence[Task], lm: dspy.LM, command: str) -> dict[str, object]:
    """Everything that is needed to run it again."""
    from pipeline.tasks import digest
    from pipeline.versions import code_version, versions

    asked = {key: value for key, value in vars(args).items() if value is not None and key not in ("json", "output")}
    return {
        **asked,
        "command": f"python -m {NAME} {command}",
        "lm": lm.model,
        "tasks": ", ".join(task.name for task in tasks),
        "task_set_digest": digest(tasks),
        "temperatures": ",".join(map(str, args.temperatures)),
        "threads": _threads(args),
        "code_version": code_version(),
        **versions(),
    }


def _metadata(experience: Experience, run_id: str) -> dict[str, object]:
    """What the program's file says of how it was made."""
    rates = {entry.task_key: f"{entry.successes}/{entry.samples}" for entry in experience.entries}
    return {"run_id": run_id, "solved": rates, "unsolved": list(experience.unsolved), "settings": experience.settings}


def _new_program_path(args: Arguments, run_id: str) -> Path:
    from pipeline import store

    folder = store.folder() / "programs"
    folder.mkdir(exist_ok=True)
    return folder / f"{args.optimizer}-{args.lm.replace('/', '-')}-{run_id[:8]}.json"


def _end(experience: Experience) -> Exit:
    """The exit code, once stderr has been told what is not as it should be."""
    match experience.stopped:
        case "interrupted":
            tell(f"{experience.message}; what was done is kept, see above. {GO_ON}")
            return Exit.INTERRUPTED
        case "failed":
            tell(f"{experience.message}; what was done is kept, see above. {GO_ON}")
            return Exit.LM
        case "budget" if not experience.attempts:
            tell(f"{experience.message} before anything was done")
            return Exit.LM
    return Exit.OK if experience.solved else Exit.NO


def tell(message: str) -> None:
    """Says something on stderr, under the command's name."""
    print(f"{NAME}: {message}", file=sys.stderr)


if __name__ == "__main__":
    start(NAME, main)
