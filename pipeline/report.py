"""`python -m pipeline.report [RUN…] -o DIR`: the paper's tables and figures from recorded runs."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from pipeline.base.errors import Exit, print_message, require, start
from pipeline.base.files import file_errors, shown, writable_folder
from pipeline.base.outputs import json_text
from pipeline.base.settings import Config, option
from pipeline.base.text import counted
from pipeline.cli.options import Json, Parser, output_option

NAME = "pipeline.report"
EPILOG = """\
examples:
  python -m pipeline.report -o report
  python -m pipeline.report --export sft preferences -o data
  python -m pipeline.report 4f2a9c81 'none embedded' -o report      an id or its beginning, the beginning of a name

runs without recorded answers are omitted and listed on stderr

exit codes: 0 the page is written, 2 a bad option, an unknown run, or a run without recorded answers"""


class ReportOptions(Config):
    """Which runs, and where the report goes."""

    run: tuple[str, ...] = option(
        (),
        "a run's id, or the beginning of an id or a name, which may match several (default: the latest run)",
        "RUN",
        nargs="*",
        positional=True,
    )
    output: str = output_option("the folder to write; it is created if missing", "DIR", writable_folder, required=True)
    export: tuple[Literal["sft", "preferences", "bundle"], ...] = option(
        (),
        "also write chats to tune an LM with, right answers (`sft`) or repairs (`preferences`), or a `bundle` of all"
        " that the runs recorded",
        "KIND",
        nargs="+",
    )
    as_json: Json = False


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the report."""
    description = "Writes the tables and figures of recorded runs as one HTML page, with CSV files."
    options = ReportOptions.of(Parser(NAME, description, EPILOG, ReportOptions).given(argv))
    folder = Path(options.output)

    require("mlflow", "matplotlib", "pandas", "jinja2")
    print_message(NAME, "reads the recorded runs")
    from pipeline.reporting import export, page
    from pipeline.reporting import runs as recorded_runs

    runs = recorded_runs.read_runs(options.run, skip=partial(print_message, NAME))
    print_message(NAME, f"draws the figures of {counted(len(runs), 'run')}")
    with file_errors(f"--output: can't write the report to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        files = page.write(runs, folder)
        files += [export.write(kind, runs, folder, files) for kind in options.export]
    if options.as_json:
        print(json_text(NAME, {"page": str(folder / files[0]), "runs": [run.run_id for run in runs], "files": files}))
    else:
        print(f"{shown(folder.absolute() / files[0])}: {'; '.join(run.label for run in runs)}")
    return Exit.OK


if __name__ == "__main__":
    start(NAME, main)
