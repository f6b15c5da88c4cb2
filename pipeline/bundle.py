"""`python -m pipeline.bundle TASK [IMPL] -o DIR`, `--check DIR`: a program with the evidence that a reviewer needs."""

from collections.abc import Sequence
from pathlib import Path

from pipeline.base.errors import Exit, UsageError, print_message, start
from pipeline.base.files import writable_folder
from pipeline.base.languages import LanguageName
from pipeline.base.outputs import MANIFEST, Origin
from pipeline.base.settings import Config, option
from pipeline.cli.options import Parser, ProgramName, output_option, program_file, read_program
from pipeline.verification.isolation.confinement import SandboxOptions
from pipeline.verification.task_files import load_task_named

NAME = "pipeline.bundle"
EPILOG = """\
examples:
  python -m pipeline.bundle my_task.yaml my_program.step -o bundle/ --person 'A. Person <a@example.org>'
  python -m pipeline.bundle gemm/1 solution.step -o bundle/ --run 2894a2c9
  python -m pipeline.bundle --check bundle/

exit codes: 0 the bundle is written, or its content holds, 1 the program does not pass, or something has changed,
2 a bad option or file, 130 interrupted"""


class BundleOptions(Config):
    """The program to bundle or the bundle to check, and its author."""

    task: str | None = option(
        None, "a task file, or a benchmark name such as gemm/1", "TASK", nargs="?", positional=True
    )
    impl: str | None = program_file()
    language: LanguageName = None
    output: str | None = output_option("the folder to write", "DIR", writable_folder)
    check: str | None = option(None, "check the bundle in this folder again", "DIR")
    run: str | None = option(None, "the run on record that wrote the program: an id, or its beginning", "RUN")
    lm: str | None = option(None, "the LM that wrote it, without a run on record", "LM")
    person: str | None = option(None, "the person who answers for it", "NAME")


def main(argv: Sequence[str] | None = None) -> int:
    """Writes or checks the bundle."""
    parser = Parser(NAME, "Bundles a program with all that a reviewer needs to trust it.", EPILOG,
                    BundleOptions, SandboxOptions)  # fmt: skip
    options = BundleOptions.of(parser.given(argv))
    if (options.check is None) == (options.task is None):
        raise UsageError("expected a TASK to bundle, or --check DIR")
    if options.check is None and options.output is None:
        raise UsageError("-o: expected the folder to write the bundle to")
    if options.run is not None and options.lm is not None:
        raise UsageError("--lm: the run on record names it; omit the option")

    if options.check is not None:
        from pipeline.actions import bundle_program as action

        differences, digest = action.check(Path(options.check))
        print(*(f"DIFFERS  {each}" for each in differences), sep="\n", end="\n" if differences else "")
        print(f"{options.check}: {'not all of it holds' if differences else 'all of it holds'}")
    else:
        differences, digest = [], _written(options)
        if not digest:
            return Exit.NO
        print(f"{options.output}: written")
    print(f"{MANIFEST}, SHA-256: {digest}")
    return Exit.NO if differences else Exit.OK


def _written(options: BundleOptions) -> str:
    """The digest of the bundle, which is written; empty for a program that does not pass."""
    task = load_task_named(str(options.task), options.language)
    text = read_program(ProgramName(task=str(options.task), impl=options.impl), task)

    from pipeline.actions import bundle_program as action
    from pipeline.record.origins import origin_in

    origin = Origin(lm=options.lm) if options.run is None else origin_in(options.run, task, text, options.language)
    try:
        stated = origin.model_copy(update={"person": options.person})
        return action.write(task, text, Path(str(options.output)), stated, options.language)
    except action.NotRight as error:
        print_message(NAME, f"the program does not pass, and is not bundled\n{error}")
        return ""


if __name__ == "__main__":
    start(NAME, main)
