"""`python -m pipeline.ablate`: the paper's ablation for the given LMs, as recorded runs and one page.

Four methods on the same tasks, each a run like those of `pipeline.compile`, with a budget of its own: a single LM
without the structural IR, a single LM, the agent, and the agent with learning. Run again, it skips the runs that have
finished and resumes those that were interrupted.
"""

from collections.abc import Sequence

from pipeline.base.config import PlanOptions
from pipeline.base.errors import Exit, UsageError, start
from pipeline.base.files import writable_folder
from pipeline.base.outputs import json_text
from pipeline.base.settings import Config, option
from pipeline.cli.options import Json, Parser, command_line, output_option
from pipeline.verification.sandbox import SandboxOptions

NAME = "pipeline.ablate"
EPILOG = """\
examples:
  python -m pipeline.ablate
  python -m pipeline.ablate --lm embedded embedded/50 --samples 16 -o ablation
  OPENAI_API_KEY=... python -m pipeline.ablate --lm openai/gpt-4o --max-usd 5      up to 5 USD for each of four runs

exit codes: 0 the page is written, 1 a run is being made by another process, 2 a bad option or file,
3 an LM or the record can't be used, 130 interrupted (the results so far are kept)"""


class AblateOptions(Config):
    """Options of the command beside those of the runs."""

    output: str | None = output_option("where the page goes (default: a folder in mlruns)", "DIR", writable_folder)
    as_json: Json = False
    dry_run: bool = option(
        False, "print the least and the most requests, tokens and dollars of the remaining runs, and send no request"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Makes the runs that are missing, then writes the page; see the exit codes."""
    given = Parser(NAME, "Measures the contributions of the structural IR, the guardian and learning.", EPILOG,
                   PlanOptions, AblateOptions, SandboxOptions).given(argv)  # fmt: skip
    options, plan = AblateOptions.of(given), PlanOptions.of(given)
    if len(set(plan.lm)) < len(plan.lm):
        raise UsageError("--lm: an LM is named twice")

    from pipeline.actions import dry_run, run_ablation, run_sweep

    sweep = run_ablation.open_ablation(plan)
    if options.dry_run:
        dry_run.print_table(NAME, run_sweep.estimate(sweep), "LM, method", as_json=options.as_json)
        return Exit.OK
    if code := run_sweep.run(NAME, sweep, command_line(NAME, argv)):
        return code
    page = run_ablation.write_page(sweep, options.output)
    if options.as_json:
        print(json_text(NAME, page))
    else:
        run_ablation.print_figures(page)
    return Exit.OK


if __name__ == "__main__":
    start(NAME, main)
