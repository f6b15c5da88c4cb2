"""`python -m pipeline.ablate`: the paper's ablation for the given LMs, as recorded runs and one page.

Eight methods on the same tasks, each a run like those of `pipeline.compile` for every seed: a single LM without the
structural IR, a single LM, the agent, the agent with learning at four granularities, and the control, which samples the
agent without learning for as many tokens. Run again, it skips the runs that have finished and resumes those that were
interrupted.
"""

from collections.abc import Sequence
from pathlib import Path

from pipeline.base.config import PlanOptions
from pipeline.base.errors import Exit, UsageError, start
from pipeline.base.files import shown, writable_folder
from pipeline.base.outputs import json_text
from pipeline.base.settings import Config, option
from pipeline.cli.options import Json, Parser, command_line, output_option
from pipeline.verification.isolation.confinement import SandboxOptions

NAME = "pipeline.ablate"
EPILOG = """\
examples:
  python -m pipeline.ablate
  python -m pipeline.ablate --lm embedded embedded/50 --samples 16 --seed 0 1 2 -o ablation
  OPENAI_API_KEY=... python -m pipeline.ablate --lm openai/gpt-4o --max-usd 5      up to 5 USD for each of eight runs

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
    for name, values in (("lm", plan.lm), ("seed", plan.seed)):
        if len(set(values)) < len(values):
            raise UsageError(f"--{name}: a value is given twice")

    from pipeline.actions import dry_run, run_sweep

    sweep = run_sweep.open_ablation(plan)
    if options.dry_run:
        dry_run.print_table(NAME, run_sweep.estimate(sweep), "LM, method", as_json=options.as_json)
        return Exit.OK
    if code := run_sweep.run(NAME, sweep, command_line(NAME, argv)):
        return code
    page = run_sweep.write_page(sweep, run_sweep.figures(sweep), options.output)
    if options.as_json:
        print(json_text(NAME, page))
    else:
        run_sweep.print_figures(page)
        print(f"\n{shown(Path(page['page']).absolute())}")
    return Exit.OK


if __name__ == "__main__":
    start(NAME, main)
