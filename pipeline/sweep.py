"""`python -m pipeline.sweep SPEC.yaml`: a run of `pipeline.compile` for every combination of settings.

Run again, it skips the runs that have finished and resumes those that were interrupted.
"""

from collections.abc import Sequence
from pathlib import Path

from pipeline.base.errors import start
from pipeline.base.outputs import json_text
from pipeline.base.settings import Config, option
from pipeline.cli.options import Json, Parser, TrackingURI, command_line

NAME = "pipeline.sweep"
EPILOG = """\
example of a file; the names in `base` and `sweep` are the options of pipeline.compile, with _ for -:
  base: {optimizer: adaptive, samples: 16}
  sweep:
    seed: [0, 1, 2]
    selection: [adaptive, similar]

examples:
  python -m pipeline.sweep selections.yaml
  python -m pipeline.sweep selections.yaml --tracking-uri http://record.example:5000

exit codes: 0 all runs have finished, 1 some are being made by another process, 2 a bad option or file,
3 an LM or the record can't be used, 130 interrupted (the results so far are kept)"""


class SweepOptions(Config):
    """Which sweep."""

    spec: str = option(..., "the file of the sweep", "SPEC.yaml", positional=True)
    as_json: Json = False
    tracking_uri: TrackingURI = None


def main(argv: Sequence[str] | None = None) -> int:
    """Makes the runs that are missing, then prints the table; see the exit codes."""
    description = "Runs every combination of settings, and compares them by means and intervals over the seeds."
    options = SweepOptions.of(Parser(NAME, description, EPILOG, SweepOptions).given(argv))

    from pipeline.actions import run_sweep as action

    sweep = action.open_sweep(Path(options.spec))
    command = command_line(NAME, argv)
    code = action.run(NAME, sweep, command)
    figures = action.figures(sweep)
    if options.as_json:
        print(json_text(NAME, figures))
    else:
        action.print_figures(figures)
    return code


if __name__ == "__main__":
    start(NAME, main)
