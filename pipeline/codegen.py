"""`python -m pipeline.codegen TASK [IMPL] -o FILE`: a program's self-contained pytest script."""

import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline.base.errors import Exit, start
from pipeline.base.files import write_text
from pipeline.base.languages import LanguageName
from pipeline.base.settings import Config
from pipeline.cli.options import Parser, output_option
from pipeline.cli.program_arguments import ProgramArguments, read_program
from pipeline.languages import registry
from pipeline.languages.language import WritesTests
from pipeline.verification.sandbox import SandboxOptions

NAME = "pipeline.codegen"
EPILOG = """\
examples:
  python -m pipeline.codegen gemm/1 my_program.txt -o test_gemm_1.py && pytest test_gemm_1.py
  python -m pipeline.codegen my_task.yaml - < my_program.txt

exit codes: 0 the script is written, 2 a bad option or file"""


class CodegenOptions(Config):
    """The program's language, and where the script goes."""

    language: LanguageName = None
    output: str | None = output_option("where to write it (default: stdout)", "FILE", None)


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the script."""
    given = Parser(NAME, "Writes a pytest script that passes or fails as the verifier does.", EPILOG,
                   ProgramArguments, CodegenOptions, SandboxOptions).given(argv)  # fmt: skip
    options, arguments = CodegenOptions.of(given), ProgramArguments.of(given)
    writer = registry.offer(options.language, WritesTests, "--language")

    from pipeline.verification.task_files import load_task_named

    task = load_task_named(arguments.task, options.language)
    script = writer.test_script(task, read_program(arguments, task), arguments.dtype)
    if options.output is None:
        sys.stdout.write(script)
        return Exit.OK
    write_text(Path(options.output), script)
    return Exit.OK


if __name__ == "__main__":
    start(NAME, main)
