"""`python -m pipeline.codegen TASK [IMPL] -o FILE`: a program's self-contained pytest script."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline.base.errors import Exit, UsageError, start
from pipeline.cli.options import Parser
from pipeline.cli.program_arguments import add_program, read_program

NAME = "pipeline.codegen"
EPILOG = """\
examples:
  python -m pipeline.codegen gemm/1 my_program.txt -o test_gemm_1.py && pytest test_gemm_1.py
  python -m pipeline.codegen my_task.yaml - < my_program.txt

exit codes: 0 the script is written, 2 a bad option or file"""


def make_parser() -> Parser:
    """The command's options."""
    parser = Parser(NAME, "Writes a pytest script that passes or fails as the verifier does.", EPILOG)
    add_program(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write it (default: stdout)")
    parser.add_argument(
        "--dtype",
        choices=("float64", "float32"),
        default="float64",
        help="the floating type to compute in (default: %(default)s, as the verifier does)",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the script."""
    args = make_parser().parse_args(argv)
    from pipeline.verification.task_files import load_task_named, scopes
    from step_runtime.codegen import generate_test

    task = load_task_named(args.task)
    script = generate_test(task, read_program(args, task), dtype=args.dtype, scopes=scopes(task))
    if args.output is None:
        sys.stdout.write(script)
        return Exit.OK
    try:
        Path(args.output).write_text(script, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{args.output}: cannot write the script: {error.strerror}") from None
    return Exit.OK


if __name__ == "__main__":
    start(NAME, main)
