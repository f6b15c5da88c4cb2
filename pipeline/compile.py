"""`python -m pipeline.compile --optimizer NAME`: the main job.

Optimizes the agent on the tasks, records the run in MLflow, writes the compiled program, and prints where.
"""

from __future__ import annotations

import argparse
import json
import logging
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.base.errors import Exit, UsageError, start, tell
from pipeline.base.files import write_text
from pipeline.cli import options

if TYPE_CHECKING:
    import dspy

    from optimizers import Experience
    from pipeline.agent.agent import GuardianMode
    from pipeline.agent.proposer import ProposerKind
    from pipeline.record.request import Request
    from pipeline.record.resume import Finished, Resumed
    from pipeline.running.job import Done, LMs

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
    max_tokens: int
    timeout: float
    batch_n: int
    guardian: GuardianMode
    proposer: ProposerKind
    refine: int
    no_ir: bool
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
    verdict_cache: str | None
    output: str | None
    json: bool


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
        type=options.writable_file,
        help="where the compiled program goes (default: a new file in mlruns/programs)",
    )
    options.add_json(parser)
    options.add_lm(parser)
    options.add_agent(parser)
    options.add_tuning(parser)
    options.add_sampling(parser)
    options.add_verdict_cache(parser)
    options.add_budget(parser)
    options.add_earlier(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the job; see the exit codes."""
    parser = make_parser()
    args = parser.parse_args(argv, namespace=Arguments())
    if not (args.optimizer or args.resume):
        raise UsageError("--optimizer: expected the name of one, or a run to go on with, by --resume")

    from pipeline.lms.factory import make_lm
    from pipeline.running.job import LMs
    from pipeline.running.session import refuse_tools

    logging.getLogger("optimizers").addHandler(logging.NullHandler())  # what it logs is told at the end
    resumed = _resume(args, options.given(parser, argv)) if args.resume else None
    if resumed and resumed.finished:
        return _already(args, resumed, resumed.finished)
    request = resumed.request if resumed else _load(args)
    lm = make_lm(args.lm, args.api_base, **options.of_lm(args))
    reflection = _reflection_lm(args)
    if resumed and request.lm != lm.model:
        raise UsageError(f"--resume: the run asked {request.lm}, and this is {lm.model}, which answers otherwise")
    refuse_tools(args.proposer, lm.model)
    request = replace(request, lm=lm.model)
    lms = LMs(lm, reflection)
    return _run(args, request, lms, resumed, command=shlex.join(sys.argv[1:] if argv is None else argv))


def _reflection_lm(args: Arguments) -> dspy.LM | None:
    """The LM that reflects where an optimizer does so, if it is not the one that solves the tasks."""
    from pipeline.lms.factory import EMBEDDED, make_lm

    if args.reflection_lm and args.optimizer not in REFLECTING:
        raise UsageError(f"--reflection-lm: `{args.optimizer}` does not reflect; leave it out")
    model = args.reflection_lm or args.lm
    if args.optimizer in REFLECTING and model.partition("/")[0] == EMBEDDED:
        told = "needs an LM that writes instructions, and the embedded one writes programs only"
        raise UsageError(f"--reflection-lm: `{args.optimizer}` {told}; name one, such as openai/gpt-4o")
    return make_lm(args.reflection_lm, args.api_base, timeout=args.timeout) if args.reflection_lm else None


def _load(args: Arguments) -> Request:
    """What a new run is asked to do; the LM's name is not known yet."""
    from pipeline.record.request import Request
    from pipeline.record.resume import load_experience
    from pipeline.verification.task_files import load_tasks

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
    from pipeline.record.resume import open_run

    resumed = open_run(args.resume or "")
    options.restore(args, resumed.request.options, given)
    for name in sorted(AS_RECORDED & given):
        raise UsageError(f"--{name}: the run to go on with has its own; leave the option out, or start a new run")
    return resumed


def _already(args: Arguments, resumed: Resumed, finished: Finished) -> int:
    """Tells how a run ended that there is nothing left to do for; its record is left as it is."""
    from pipeline.record import store
    from pipeline.running.job import Done, program_path

    with store.locked_run_folder(resumed.run_id):
        path = Path(args.output) if args.output else program_path(args, resumed.run_id)
        write_text(path, finished.program)
    tell(NAME, f"run {resumed.run_id} had already finished; nothing was asked, and its record is as it was")
    _show(args, Done(finished.experience, resumed.run_id, path), resumed.name)
    return Exit.OK if finished.experience.solved else Exit.NO


def _run(args: Arguments, request: Request, lms: LMs, resumed: Resumed | None, command: str) -> int:
    from pipeline.record.metrics import counted
    from pipeline.running.job import begin

    levels = f"m={args.granularity} " if args.optimizer == "adaptive" else ""
    tasks = counted(len(request.tasks), "task")
    name = resumed.name if resumed else f"{args.optimizer} {levels}{tasks} {args.lm}"
    drawn = f"{args.samples} samples at each temperature of {', '.join(map(str, args.temperatures))}"
    tell(NAME, f"{tasks}, {lms.solving.model}, {drawn}, seed {args.seed}")
    with begin(args, request, lms, name, {"command": f"python -m {NAME} {command}"}, resumed) as job:
        on_record = f"goes on, with {job.answers_on_record:,} answers on record" if resumed else "begins"
        tell(NAME, f"run {job.run_id} {on_record}; should it break off: {_go_on(job.run_id)}")
        done = job.run(Path(args.output) if args.output else None)
    _show(args, done, name)
    return _end(done.experience, done.run_id)


def _show(args: Arguments, done: Done, name: str) -> None:
    from rich.console import Console

    from pipeline.cli.summary import as_json, print_summary

    if args.json:
        print(json.dumps(as_json(done.experience, done.run_id, done.program)))
    else:
        print_summary(done.experience, name, done.program, Console(width=None if sys.stdout.isatty() else 120))


def _end(experience: Experience, run_id: str) -> Exit:
    """The exit code, once stderr has been told what is not as it should be."""
    from optimizers import TokenCount

    total = TokenCount.sum(experience.tokens.values())
    if total.truncated:
        tell(NAME, f"{total.truncated:,} of {total.calls:,} answers were cut off; --max-tokens gives them more room")
    match experience.stopped:
        case "interrupted" | "failed":
            tell(NAME, f"{experience.message}; what was done is kept, see above. To go on: {_go_on(run_id)}")
            return Exit.INTERRUPTED if experience.stopped == "interrupted" else Exit.LM
        case "budget" if not experience.attempts:
            tell(NAME, f"{experience.message} before anything was done")
            return Exit.LM
    return Exit.OK if experience.solved else Exit.NO


def _go_on(run_id: str) -> str:
    return f"python -m {NAME} --resume {run_id[:8]}"


if __name__ == "__main__":
    start(NAME, main)
