"""`python -m pipeline.verify TASK [IMPL]`: the verdict on one program."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.base.errors import Exit, start
from pipeline.cli.options import Parser, add_json
from pipeline.cli.program_arguments import add_program, read_program

if TYPE_CHECKING:
    from step_runtime import Task, Verdict

NAME = "pipeline.verify"
EPILOG = """\
examples:
  python -m pipeline.verify gemm/1 my_program.txt
  python -m pipeline.verify my_task.yaml - --json < my_program.txt

exit codes: 0 the program passes, 1 it does not, 2 a bad option or file"""


def make_parser() -> Parser:
    """The command's options."""
    parser = Parser(NAME, "Checks a STeP program against a task: syntax, types, affine use, and its results.", EPILOG)
    add_program(parser)
    parser.add_argument("--explain", action="store_true", help="print every stream with its element type and dims")
    parser.add_argument("--graph", metavar="FILE", help="draw the dataflow: .svg, .png or .pdf")
    parser.add_argument(
        "--dtype",
        choices=("float64", "float32"),
        default="float64",
        help="the floating type to compute in (default: %(default)s)",
    )
    add_json(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the verdict; returns 0 if the program passes, else 1."""
    args = make_parser().parse_args(argv)
    from pipeline.verification.task_files import load_task_named, verdict

    task = load_task_named(args.task)
    text = read_program(args, task)
    if args.explain or args.graph:
        _show(args, task, text)
    found = verdict(task, text, args.dtype)
    if args.json:
        print(json.dumps(as_json(found)))
    else:
        name = args.impl if args.impl not in (None, "-") else task.name
        print(found.render(text, name))
    return Exit.OK if found.passed else Exit.NO


def _show(args: argparse.Namespace, task: Task, text: str) -> None:
    """Prints or draws the graph; what is wrong with the program comes with the verdict."""
    from pipeline.verification.task_files import scopes
    from step_runtime.verification.explain import explain

    explained = explain(text, scopes(task)[0])
    if args.explain:
        print(explained.table(), end="\n\n", file=sys.stderr if args.json else sys.stdout)
    if args.graph:
        from pipeline.charts.dataflow import draw

        draw(explained, Path(args.graph))


def as_json(verdict: Verdict) -> dict[str, Any]:
    """The verdict as the command's JSON object; line and column count from 1, null where there is no place."""
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
