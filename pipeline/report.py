"""`python -m pipeline.report [RUN…] -o DIR`: the paper's tables and figures from recorded runs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pipeline.base.errors import Exit, UsageError, start, tell
from pipeline.base.paths import shown
from pipeline.cli.options import Parser, add_json, writable_folder

NAME = "pipeline.report"
EPILOG = """\
examples:
  python -m pipeline.report -o report
  python -m pipeline.report 4f2a9c81 'none 26 tasks' -o report      an id or its beginning, the beginning of a name

a run without recorded answers is left out, and named on stderr

exit codes: 0 the page is written, 2 a bad option, no such run, or none with recorded answers"""


class Arguments(argparse.Namespace):
    """The command's options, as parsed."""

    run: list[str]
    output: str
    json: bool


def make_parser() -> Parser:
    """The command's options."""
    parser = Parser(NAME, "Writes the tables and figures of recorded runs as one HTML page, with CSV files.", EPILOG)
    parser.add_argument(
        "run",
        metavar="RUN",
        nargs="*",
        help="an MLflow run's id, or the beginning of an id or a name, which may stand for several (default: the"
        " latest run)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=writable_folder,
        required=True,
        help="the folder to write; made if missing",
    )
    add_json(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the report."""
    args = make_parser().parse_args(argv, namespace=Arguments())
    folder = Path(args.output)

    from pipeline.reporting import page
    from pipeline.reporting.runs import read_runs

    runs = read_runs(args.run, skip=partial(tell, NAME))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = page.write(runs, folder)
    except OSError as error:
        raise UsageError(f"--output: can't write the report to {folder}: {error.strerror}") from None
    if args.json:
        print(json.dumps({"page": str(folder / files[0]), "runs": [run.run_id for run in runs], "files": files}))
    else:
        print(f"{shown(folder.absolute() / files[0])}: {'; '.join(run.label for run in runs)}")
    return Exit.OK


if __name__ == "__main__":
    start(NAME, main)
