"""`python -m pipeline.ablate`: the paper's ablation for the given LMs, as recorded runs and one page.

Four methods on the same tasks, each a run like those of `pipeline.compile`, with a budget of its own: a single LM
without the structural IR, a single LM, the agent, and the agent with learning. `--resume` completes an interrupted one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.base.config import PlanOptions
from pipeline.base.errors import Exit, UsageError, start
from pipeline.base.files import writable_folder
from pipeline.base.outputs import json_text
from pipeline.base.settings import Config, option
from pipeline.base.terminal import console
from pipeline.cli.options import Json, Parser, TrackingURI, command_line, output_option
from pipeline.verification.sandbox import SandboxOptions

NAME = "pipeline.ablate"
EPILOG = """\
examples:
  python -m pipeline.ablate
  python -m pipeline.ablate --lm embedded embedded/50 --samples 16 -o ablation
  OPENAI_API_KEY=... python -m pipeline.ablate --lm openai/gpt-4o --max-usd 5      up to 5 USD for each of four runs
  python -m pipeline.ablate --resume 1a2b3c4d

exit codes: 0 the page is written, 2 a bad option or file, 3 an LM or the record can't be used,
130 interrupted (the results so far are kept)"""


class AblateOptions(Config):
    """Options of the command beside those of the runs."""

    output: str | None = output_option("where the page goes (default: a folder in mlruns)", "DIR", writable_folder)
    as_json: Json = False
    dry_run: bool = option(
        False, "print the least and the most requests, tokens and dollars of each run, and send no request"
    )
    resume: str | None = option(
        None,
        "complete an interrupted ablation, with its own options and tasks and without repeating recorded requests;"
        " --threads, --api-base and the budget may differ",
        "ABLATION",
    )
    tracking_uri: TrackingURI = None


def main(argv: Sequence[str] | None = None) -> int:
    """Makes the runs that are missing, then writes the page; see the exit codes."""
    given = Parser(NAME, "Measures the contributions of the structural IR, the guardian and learning.", EPILOG,
                   PlanOptions, AblateOptions, SandboxOptions).given(argv)  # fmt: skip
    options, plan_options = AblateOptions.of(given), PlanOptions.of(given)
    if len(set(plan_options.lm)) < len(plan_options.lm):
        raise UsageError("--lm: an LM is named twice")

    from pipeline.actions import run_ablation as action

    if options.resume:
        plan, earlier = action.resume(options.resume, given)
    else:
        plan, earlier = action.new_plan(plan_options), {}
    if options.dry_run:
        return _dry_run(action.estimate(plan, earlier), options.as_json)
    command = command_line(NAME, argv)
    if code := action.run(NAME, plan, earlier, command):
        return code
    page = action.write_page(plan, options.output)
    if options.as_json:
        print(json_text(NAME, page))
    else:
        action.print_figures(page)
    return Exit.OK


def _dry_run(bounds: Mapping[str, Any], as_json: bool) -> int:
    """Prints what the runs that are left take."""
    from pipeline.actions import dry_run

    if as_json:
        print(json_text(NAME, {"runs": dry_run.table_as_json(bounds)}))
    else:
        console().print(dry_run.table(bounds, "LM, method"))
    return Exit.OK


if __name__ == "__main__":
    start(NAME, main)
