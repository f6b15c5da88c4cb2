"""`python -m pipeline.compile --optimizer NAME`: the main job.

Optimizes the agent on the tasks, records the run in MLflow, writes the compiled program, and prints where.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline import options
from pipeline.errors import Exit, UsageError, start

if TYPE_CHECKING:
    import dspy

    from optimizers import Attempt, Experience, Observer
    from pipeline.agent import GuardianMode
    from pipeline.earlier import Request, Resumed
    from step_runtime.task import Task

NAME = "pipeline.compile"
OPTIMIZERS = ("adaptive", "none", "bootstrap", "random-search", "mipro", "simba", "gepa")
REFLECTING = ("mipro", "simba", "gepa")
VALIDATING = ("adaptive", "random-search", "mipro", "gepa")
EPILOG = """\
examples:
  python -m pipeline.compile --optimizer adaptive
  python -m pipeline.compile --optimizer adaptive --tasks 'gemm/*' my_task.yaml --samples 16
  OPENAI_API_KEY=... python -m pipeline.compile --optimizer adaptive --lm openai/gpt-4o --max-usd 5
  python -m pipeline.compile --resume 1a2b3c4d
  python -m pipeline.compile --optimizer adaptive --experience 1a2b3c4d --tasks new_task.yaml

exit codes: 0 some task is solved, 1 none is, 2 a bad option or file, 3 the LM can't be used,
130 interrupted (what was done is kept)"""

OF_THIS_COMMAND = {"json", "output", "resume"}
FREE_ON_RESUME = {"api_base", "threads", "max_iterations", "max_tokens_total", "max_usd", "max_minutes"}
AS_RECORDED = {"tasks", "experience", "validation"}


class Arguments(argparse.Namespace):
    """The command's options, as parsed."""

    optimizer: str | None
    lm: str
    reflection_lm: str | None
    validation: list[str] | None
    resume: str | None
    experience: str | None
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


@dataclass(frozen=True)
class LMs:
    """The LM that solves tasks, and the one that reflects on it, if that is another."""

    solving: dspy.LM
    reflecting: dspy.LM | None


def make_parser() -> options.Parser:
    """The command's options."""
    parser = options.Parser(NAME, "Optimizes the agent on tasks: it learns from its own verified answers.", EPILOG)
    parser.add_argument(
        "--optimizer",
        choices=OPTIMIZERS,
        help="`adaptive`: adaptive self-improvement learning; `none`: a single pass without demonstrations; or one of"
        " DSPy's own, whose program is then measured by a pass: `bootstrap`, `random-search`, `mipro`, `simba`, `gepa`",
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
    options.add_tuning(parser)
    options.add_sampling(parser)
    options.add_budget(parser)
    options.add_earlier(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the job; see the exit codes."""
    parser = make_parser()
    args = parser.parse_args(argv, namespace=Arguments())
    if args.output:
        _check_output(Path(args.output))
    if not (args.optimizer or args.resume):
        raise UsageError("--optimizer: expected the name of one, or a run to go on with, by --resume")

    from pipeline.lm import make_lm

    resumed = _resume(args, options.given(parser, argv)) if args.resume else None
    request = resumed.request if resumed else _load(args)
    lm = make_lm(args.lm, args.api_base)
    reflection = _reflection_lm(args)
    if resumed and request.lm != lm.model:
        raise UsageError(f"--resume: the run asked {request.lm}, and this is {lm.model}, which answers otherwise")
    request = replace(request, lm=lm.model)
    lms = LMs(lm, reflection)
    return _run(args, request, lms, resumed, command=shlex.join(sys.argv[1:] if argv is None else argv))


def _reflection_lm(args: Arguments) -> dspy.LM | None:
    """The LM that reflects where an optimizer does so, if it is not the one that solves the tasks."""
    from pipeline.lm import EMBEDDED, make_lm

    if args.reflection_lm and args.optimizer not in REFLECTING:
        raise UsageError(f"--reflection-lm: `{args.optimizer}` does not reflect; leave it out")
    model = args.reflection_lm or args.lm
    if args.optimizer in REFLECTING and model.partition("/")[0] == EMBEDDED:
        told = "needs an LM that writes instructions, and the embedded one writes programs only"
        raise UsageError(f"--reflection-lm: `{args.optimizer}` {told}; name one, such as openai/gpt-4o")
    return make_lm(args.reflection_lm, args.api_base) if args.reflection_lm else None


def _load(args: Arguments) -> Request:
    """What a new run is asked to do; the LM's name is not known yet."""
    from pipeline.earlier import Request, load_experience
    from pipeline.tasks import load_tasks

    tasks = load_tasks(args.tasks)
    if args.validation and args.optimizer not in VALIDATING:
        raise UsageError(f"--validation: `{args.optimizer}` chooses nothing by it; leave it out")
    validation = load_tasks(args.validation) if args.validation else []
    if args.experience and args.optimizer != "adaptive":
        raise UsageError(f"--experience: `{args.optimizer}` learns nothing from it; leave it out, or use `adaptive`")
    experience = load_experience(args.experience, tasks) if args.experience else None
    asked = {name: value for name, value in vars(args).items() if name not in OF_THIS_COMMAND | AS_RECORDED}
    return Request(asked, "", tasks, validation, experience)


def _resume(args: Arguments, given: set[str]) -> Resumed:
    """The run to go on with; the options become the run's, but for those that may differ and were given."""
    from pipeline.earlier import open_run

    resumed = open_run(args.resume or "")
    recorded: Mapping[str, Any] = resumed.request.options
    for name, plain in recorded.items():
        value = tuple(plain) if isinstance(plain, list) else plain
        option = f"--{name.replace('_', '-')}"
        if name in given and name not in FREE_ON_RESUME and getattr(args, name) != value:
            raise UsageError(f"{option}: the run to go on with has {value}; leave the option out, or start a new run")
        if name not in given or name not in FREE_ON_RESUME:
            setattr(args, name, value)
    for name in sorted(AS_RECORDED & given):
        raise UsageError(f"--{name}: the run to go on with has its own; leave the option out, or start a new run")
    return resumed


def _check_output(path: Path) -> None:
    """Finds out before the run whether its result could be written."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"--output: there is no folder {folder}")
    if path.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise UsageError(f"--output: can't write the file {path}")


def _run(args: Arguments, request: Request, lms: LMs, resumed: Resumed | None, command: str) -> int:
    import dspy
    from rich.console import Console

    from pipeline.program import save_program
    from pipeline.progress import ProgressDisplay
    from pipeline.summary import as_json, print_summary
    from pipeline.tracking import recorded

    tasks, lm = request.tasks, lms.solving
    name = resumed.name if resumed else f"{args.optimizer} {len(tasks)} tasks {args.lm}"
    drawn = f"{args.samples} samples at each temperature of {', '.join(map(str, args.temperatures))}"
    tell(f"{len(tasks)} tasks, {lm.model}, {drawn}, seed {args.seed}")
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 120)
    params = _params(args, tasks, lm, command)
    with recorded(name, params, tasks, request, resumed.run_id if resumed else None) as recorder:
        on_record = f"goes on, with {len(recorder.journal):,} answers on record" if resumed else "begins"
        tell(f"run {recorder.run_id} {on_record}; should it break off: {_go_on(recorder.run_id)}")
        with ProgressDisplay(console, args.samples) as display:
            compiled = _compile(args, request, lms, [display, recorder], recorder.journal)
        experience: Experience = compiled.experience
        program = Path(args.output) if args.output else _new_program_path(args, recorder.run_id)
        with dspy.context(lm=lm):
            save_program(compiled, program, _metadata(experience, recorder.run_id))
        recorder.log_program(program)
    if args.json:
        print(json.dumps(as_json(experience, recorder.run_id, program)))
    else:
        print_summary(experience, name, program, Console(width=None if sys.stdout.isatty() else 120))
    return _end(experience, recorder.run_id)


def _compile(
    args: Arguments, request: Request, lms: LMs, observers: Sequence[Observer], journal: Sequence[Attempt]
) -> dspy.Module:
    import dspy

    from optimizers import Budget, registry
    from pipeline.agent import Agent
    from pipeline.asking import working
    from pipeline.domain import step_domain

    trainset = [dspy.Example(task=task).with_inputs("task") for task in request.tasks]
    valset = [dspy.Example(task=task).with_inputs("task") for task in request.validation]
    extra = {"reflection_lm": lms.reflecting} if args.optimizer in REFLECTING else {}
    with working(lms.solving) as metric:
        optimizer = registry.get(args.optimizer or "")(
            metric=metric,
            num_samples=args.samples,
            granularity=args.granularity,
            temperatures=args.temperatures,
            threads=_threads(args),
            seed=args.seed,
            budget=Budget(args.max_iterations, args.max_tokens_total, args.max_usd, args.max_minutes),
            domain=step_domain(),
            observers=observers,
            **extra,
        )
        return optimizer.compile(
            Agent(args.guardian),
            trainset=trainset,
            valset=valset or None,
            experience=request.experience,
            resume=journal,
        )


def _threads(args: Arguments) -> int:
    """Requests in flight: the embedded LM computes, so that more than the cores would not help it; others wait."""
    from pipeline.lm import EMBEDDED

    return args.threads or (options.cores() if args.lm.partition("/")[0] == EMBEDDED else 16)


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


def _end(experience: Experience, run_id: str) -> Exit:
    """The exit code, once stderr has been told what is not as it should be."""
    match experience.stopped:
        case "interrupted" | "failed":
            tell(f"{experience.message}; what was done is kept, see above. To go on: {_go_on(run_id)}")
            return Exit.INTERRUPTED if experience.stopped == "interrupted" else Exit.LM
        case "budget" if not experience.attempts:
            tell(f"{experience.message} before anything was done")
            return Exit.LM
    return Exit.OK if experience.solved else Exit.NO


def _go_on(run_id: str) -> str:
    return f"python -m {NAME} --resume {run_id[:8]}"


def tell(message: str) -> None:
    """Says something on stderr, under the command's name."""
    print(f"{NAME}: {message}", file=sys.stderr)


if __name__ == "__main__":
    start(NAME, main)
