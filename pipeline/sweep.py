"""`python -m pipeline.sweep SPEC.yaml`: a run of `pipeline.compile` for every combination of settings.

Run again, it skips the runs that have finished and resumes those that were interrupted.
"""

from collections.abc import Sequence
from pathlib import Path

from pipeline.base.errors import Exit, start
from pipeline.base.files import existing_file, picture
from pipeline.base.outputs import json_text
from pipeline.base.settings import Config, option
from pipeline.cli.options import Json, Parser, command_line, output_option
from pipeline.verification.isolation.confinement import SandboxOptions

NAME = "pipeline.sweep"
EPILOG = """\
example of a file; the names in `base` and `sweep` are the options of pipeline.compile, with _ for -:
  base: {optimizer: adaptive, samples: 16}
  sweep:
    seed: [0, 1, 2]
    selection: [adaptive, similar, resample]
  compare: {selection: resample}         differences from this configuration, seed by seed
  match_tokens: {selection: adaptive}    the other runs get the tokens of this configuration

examples:
  python -m pipeline.sweep examples/learning.yaml --dry-run
  python -m pipeline.sweep examples/learning.yaml -o curve.svg
  MLFLOW_TRACKING_URI=http://record.example:5000 python -m pipeline.sweep selections.yaml

exit codes: 0 all runs have finished, 1 some are being made by another process, 2 a bad option or file,
3 an LM or the record can't be used, 130 interrupted (the results so far are kept)"""


class SweepOptions(Config):
    """Which sweep."""

    spec: str = option(..., "the file of the sweep", "SPEC.yaml", positional=True, check=existing_file)
    output: str | None = output_option(
        "draw the tasks solved over samples and tokens, as an .svg or a .png", "FILE", picture
    )
    dry_run: bool = option(
        False, "print the least and the most requests, tokens and dollars of the remaining runs, and send no request"
    )
    as_json: Json = False


def main(argv: Sequence[str] | None = None) -> int:
    """Makes the runs that are missing, then prints the table; see the exit codes."""
    description = "Runs every combination of settings, and compares them by means and intervals over the seeds."
    options = SweepOptions.of(Parser(NAME, description, EPILOG, SweepOptions, SandboxOptions).given(argv))

    from pipeline.actions import dry_run, run_sweep

    sweep = run_sweep.open_sweep(Path(options.spec))
    if options.dry_run:
        dry_run.print_table(NAME, run_sweep.estimate(sweep), "configuration", as_json=options.as_json)
        return Exit.OK
    code = run_sweep.run(NAME, sweep, command_line(NAME, argv))
    figures = run_sweep.figures(sweep)
    if options.output:
        run_sweep.draw(sweep, figures, Path(options.output))
    if options.as_json:
        print(json_text(NAME, figures))
    else:
        run_sweep.print_figures(figures)
    return code


if __name__ == "__main__":
    start(NAME, main)
