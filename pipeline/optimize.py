"""`python -m pipeline.optimize TASK [IMPL]`: rewrites a program so that it costs less."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.base.errors import Exit, start
from pipeline.base.files import new_file, write_text
from pipeline.base.outputs import brief, json_text
from pipeline.base.settings import Config, Figure, option
from pipeline.cli.options import Json, Parser, ProgramName, output_option, read_program
from pipeline.verification.isolation.confinement import SandboxOptions
from pipeline.verification.task_files import load_one_with_warnings

if TYPE_CHECKING:
    from pipeline.actions.price_program import Optimized

NAME = "pipeline.optimize"
EPILOG = """\
examples:
  python -m pipeline.optimize norm/1 my_program.step --objective memory
  python -m pipeline.optimize norm/1 my_program.step --objective operations -o cheaper.step

Rewrites keep the results, and the program found is verified, under stress too. Folds are merged or split only where the
function is proved associative. docs/cost.md lists the rewrites.

exit codes: 0 the program is printed, 1 the given program is wrong, 2 a bad option or file"""


class OptimizeOptions(Config):
    """The figure to minimize, and the place of the program."""

    objective: Figure = option("memory", "the figure to minimize; the other figures break ties")
    output: str | None = output_option("where to write the program (default: stdout)", "FILE", new_file)
    as_json: Json = False


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the cheapest program; returns 1 if the given one is wrong."""
    given = Parser(NAME, "Rewrites a program so that it costs less, and verifies the result.", EPILOG,
                   ProgramName, OptimizeOptions, SandboxOptions).given(argv)  # fmt: skip
    arguments, options = ProgramName.of(given), OptimizeOptions.of(given)

    task, doubts = load_one_with_warnings(arguments.task)

    from pipeline.actions.price_program import Optimized, optimize

    text = read_program(arguments, task)
    found = optimize(task, text, options.objective)
    if not isinstance(found, Optimized):
        print(found.feedback, file=sys.stderr)
        return Exit.NO
    if options.output is not None:
        write_text(Path(options.output), found.best.text)
    if options.as_json:
        warnings = [asdict(each) for each in (*doubts, *found.findings)]
        print(json_text(NAME, as_json(found) | {"warnings": warnings}))
    else:
        print(_report(found), end="\n\n", file=sys.stderr if options.output is None else sys.stdout)
        if options.output is None:
            print(found.best.text, end="")
    return Exit.OK


def as_json(found: "Optimized") -> dict[str, Any]:
    """The program found and the figures before and after, as the command's JSON object."""
    return {
        "program": found.best.text,
        "rewrites": list(found.best.rewrites),
        "before": dict(found.given.cost.figures()),
        "after": dict(found.best.cost.figures()),
        "programs": found.programs,
        "refused": found.refused,
        "left": dict(found.left),
    }


def _report(found: "Optimized") -> str:
    from pipeline.base.text import counted, exact_number
    from pipeline.cli.cost_tables import aligned

    rows = [["figure", "before", "after"]]
    after = found.best.cost.figures()
    for figure, value in found.given.cost.figures().items():
        rows.append([figure, exact_number(value), exact_number(after[figure])])
    steps = ", ".join(found.best.rewrites) or "none; no cheaper program was found"
    refused = f"; verification refused {found.refused} that were cheaper" if found.refused else ""
    left = [f"folds by {name} are neither merged nor split: {reason}" for name, reason in found.left.items()]
    warned = [f"warning: {brief(finding)}" for finding in found.findings]
    lines = [f"rewrites: {steps}", f"priced {counted(found.programs, 'program')}{refused}", *left, *warned]
    return "\n".join([*aligned(rows, right={1, 2}), *lines])


if __name__ == "__main__":
    start(NAME, main)
