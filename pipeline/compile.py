"""`python -m pipeline.compile --optimizer NAME`: the main job.

Optimizes the agent on the tasks, records the run in MLflow, writes the compiled program, and prints where.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline.base.config import EARLIER_RUNS, RunConfig
from pipeline.base.errors import UsageError, start
from pipeline.base.files import writable_file
from pipeline.base.outputs import json_text
from pipeline.base.settings import Config, option
from pipeline.cli.options import Json, Parser, command_line, output_option, require_ready
from pipeline.verification.isolation.confinement import SandboxOptions

if TYPE_CHECKING:
    from pipeline.record.request import Request
    from pipeline.record.resume import Resumed

NAME = "pipeline.compile"
EPILOG = """\
examples:
  python -m pipeline.compile --optimizer adaptive
  python -m pipeline.compile --optimizer adaptive --tasks 'gemm/*' my_task.yaml --samples 16
  OPENAI_API_KEY=... python -m pipeline.compile --optimizer adaptive --lm openai/gpt-4o --max-usd 5
  python -m pipeline.compile --resume 1a2b3c4d
  python -m pipeline.compile --optimizer adaptive --experience 1a2b3c4d --tasks new_task.yaml

exit codes: 0 at least one task is solved, 1 no task is solved, 2 a bad option or file,
3 the LM or the record can't be used, 130 interrupted (the results so far are kept)"""


class CompileOptions(Config):
    """Options of the command beside those of the run."""

    output: str | None = output_option(
        "where to write the compiled program (default: a new file in mlruns/programs)", "FILE", writable_file
    )
    as_json: Json = False
    dry_run: bool = option(
        False, "print lower and upper bounds on requests, tokens and dollars, without sending a request"
    )
    resume: str | None = EARLIER_RUNS.option(
        None,
        "continue an interrupted run with its own options and tasks, without repeating recorded requests;"
        " --threads, --api-base and the budget may be changed",
        "RUN",
    )
    force: bool = EARLIER_RUNS.option(
        False, "with --resume: take over a run that another machine was recording, if that machine is gone"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the job; see the exit codes."""
    given = Parser(NAME, "Optimizes the agent on tasks: it learns from its own verified answers.", EPILOG,
                   RunConfig, CompileOptions, SandboxOptions).given(argv)  # fmt: skip
    options = CompileOptions.of(given)
    if not (options.resume or "optimizer" in given):
        raise UsageError("--optimizer: expected an optimizer's name, or a run to resume with --resume")
    if options.force and not options.resume:
        raise UsageError("--force: takes over a run to resume; name it with --resume")
    if options.dry_run and options.resume:
        raise UsageError("--dry-run: estimates new runs only; omit --resume")
    config = None if options.resume else RunConfig.of(given)
    if config is not None:
        config.require_used()
        require_ready(config, config.tasks)

    from pipeline.actions import compile_agent as action

    plan: Request | Resumed
    if config is None:
        plan = action.resume(str(options.resume), given, options.force)
    else:
        plan = request = action.prepare(config)
        if options.dry_run:
            return _dry_run(request, options)
    command = command_line(NAME, argv)
    result = action.compile_agent(NAME, plan, options.output, command)
    if options.as_json:
        print(json_text(NAME, action.as_json(result, plan)))
    else:
        action.print_summary(result)
    return action.exit_code(NAME, result)


def _dry_run(request: "Request", options: CompileOptions) -> int:
    """Prints what the run takes."""
    from pipeline.actions import dry_run

    least, most = dry_run.estimate(request)
    as_json = json_text(NAME, dry_run.both_as_json(least, most)) if options.as_json else None
    print(as_json or dry_run.as_text(least, most, request.config))
    return 0


if __name__ == "__main__":
    start(NAME, main)
