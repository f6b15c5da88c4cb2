"""`python -m pipeline.codegen TASK [IMPL] -o FILE`: a program's self-contained pytest script."""

import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline.base.errors import Exit, start
from pipeline.base.files import write_text
from pipeline.base.settings import Config
from pipeline.cli.options import Parser, output_option
from pipeline.cli.program_arguments import ProgramName, read_program
from pipeline.verification.sandbox import SandboxOptions

NAME = "pipeline.codegen"
EPILOG = """\
examples:
  python -m pipeline.codegen gemm/1 my_program.txt -o test_gemm_1.py && pytest test_gemm_1.py
  python -m pipeline.codegen my_task.yaml - < my_program.txt

exit codes: 0 the script is written, 2 a bad option or file"""


class CodegenOptions(Config):
    """Where the script goes."""

    output: str | None = output_option("where to write it (default: stdout)", "FILE", None)


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the script."""
    given = Parser(NAME, "Writes a pytest script that passes or fails as the verifier does.", EPILOG,
                   ProgramName, CodegenOptions, SandboxOptions).given(argv)  # fmt: skip
    options, arguments = CodegenOptions.of(given), ProgramName.of(given)

    from pipeline.actions.price_program import pytest_script
    from pipeline.verification.task_files import load_task_named

    task = load_task_named(arguments.task)
    script = pytest_script(task, read_program(arguments, task))
    if options.output is None:
        sys.stdout.write(script)
        return Exit.OK
    write_text(Path(options.output), script)
    return Exit.OK


if __name__ == "__main__":
    start(NAME, main)
