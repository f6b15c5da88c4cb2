"""`python -m pipeline.verify TASK [IMPL]`: the verdict on one program."""

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pipeline.base.config import Config, Option
from pipeline.base.errors import Exit, start
from pipeline.cli.options import Json, Parser
from pipeline.cli.program_arguments import ProgramArguments

if TYPE_CHECKING:
    from step_runtime import Verdict

NAME = "pipeline.verify"
EPILOG = """\
examples:
  python -m pipeline.verify gemm/1 my_program.txt
  python -m pipeline.verify my_task.yaml - --json < my_program.txt

exit codes: 0 the program passes, 1 it does not, 2 a bad option or file"""


class VerifyOptions(Config):
    """What to show beside the verdict."""

    explain: Annotated[bool, Option("print every stream with its element type and dims")] = False
    graph: Annotated[str | None, Option("draw the dataflow: .svg, .png or .pdf", metavar="FILE")] = None
    cost: Annotated[bool, Option("show what a program that passes costs, as pipeline.cost does")] = False
    as_json: Json = False


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the verdict; returns 0 if the program passes, otherwise 1."""
    given = Parser(NAME, "Checks a STeP program against a task: syntax, types, affine use, and its results.", EPILOG,
                   ProgramArguments, VerifyOptions).given(argv)  # fmt: skip
    arguments, options = ProgramArguments.of(given), VerifyOptions.of(given)

    from pipeline.actions import check_program as action

    task, text = action.load(arguments)
    if options.explain or options.graph:
        table = action.explain_program(task, text, options.graph)
        if options.explain:
            print(table, end="\n\n", file=sys.stderr if options.as_json else sys.stdout)
    found = action.verdict(task, text, arguments.dtype)
    name = arguments.impl if arguments.impl not in (None, "-") else task.name
    table, costs = action.cost_of(task, str(name), text) if options.cost and found.passed else ("", None)
    if options.as_json:
        print(json.dumps(as_json(found) | ({} if costs is None else {"cost": costs})))
    else:
        print(found.render(text, str(name)), *(["", table] if table else []), sep="\n")
    return Exit.OK if found.passed else Exit.NO


def as_json(verdict: "Verdict") -> dict[str, Any]:
    """The verdict as the command's JSON object; line and column count from 1, null where there is no position."""
    return {
        "passed": verdict.passed,
        "stage": verdict.stage,
        "diagnostics": [
            {
                "code": diagnostic.code,
                "message": diagnostic.message,
                "line": diagnostic.span.line if diagnostic.span else None,
                "column": diagnostic.span.column if diagnostic.span else None,
                "details": list(diagnostic.details),
                "hint": diagnostic.hint,
            }
            for diagnostic in verdict.diagnostics
        ],
    }


if __name__ == "__main__":
    start(NAME, main)
