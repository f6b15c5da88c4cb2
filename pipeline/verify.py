"""`python -m pipeline.verify TASK [IMPL]`: the verdict on one program, or on many.

Worker processes read the task, run its code and judge the program; this process does not import torch or the language.
"""

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pipeline.base.errors import UsageError, print_message, start
from pipeline.base.files import new_file, writable_file, write_text
from pipeline.base.languages import LanguageName, step_only
from pipeline.base.outputs import VerifyOutput
from pipeline.base.settings import Config, FloatType, OptionGroup, flag, option, sizes_text
from pipeline.cli.junit import junit_text
from pipeline.cli.options import Item, Json, Parser, names_many, resolve
from pipeline.languages import Language, registry
from pipeline.verification.isolation.confinement import SandboxOptions
from pipeline.verification.judge import Request
from pipeline.verification.limits import ProgramLimits
from step_runtime.verification.verdict import Verdict

NAME = "pipeline.verify"
EPILOG = """\
several programs at once: every name that ends in .yaml or .yml, every folder, pattern and benchmark name is a task;
any other file, and -, is the program of the task named before it. A task without a program is judged by its own `impl`.

examples:
  python -m pipeline.verify gemm/1 my_program.step
  python -m pipeline.verify my_task.yaml - --json < my_program.step
  python -m pipeline.verify a.yaml a.step b.yaml b.step 'solved/*.yaml' --junit report.xml
  python -m pipeline.verify my_tasks/ --programs my_programs/ --strict

exit codes: 0 every program passes, 1 some program does not, 2 a bad option or file,
4 a verdict is unknown, as a limit ended the run, 130 interrupted"""

MANY = OptionGroup("several programs")


class VerifyOptions(Config):
    """The programs, and the output beside the verdicts."""

    task: tuple[str, ...] = option(
        ...,
        "a task (a file, or a benchmark name such as gemm/1), and a file with the program, - for stdin (default:"
        " the task's own `impl`); or several of both, folders and patterns included: see below",
        "TASK",
        nargs="+",
        positional=True,
    )
    language: LanguageName = None
    dtype: FloatType = option("float64", "the floating type to compute in")
    explain: bool = option(False, "print every stream with its element type and dims; with --exact, the proof")
    values: bool = option(False, "for wrong values, print the first stream that matches no reference value")
    exact: bool = option(
        False, "prove in exact arithmetic that each passing program equals the reference at the tested sizes"
    )
    no_stress: bool = option(False, "skip stress testing, which runs passing programs and the reference in float32")
    sizes: str | None = option(
        None,
        "also compare in the task's formats at sizes such as N=1024,D=128; `original`: those that the task names",
        "DIM=SIZE,…",
        check=sizes_text,
    )
    ir: str | None = option(
        None, "write the graph of a passing program as JSON: nodes, types, queues, lines", "FILE", check=writable_file
    )
    pytest: str | None = option(
        None,
        "write a pytest script of a passing program, which passes or fails as the verifier does",
        "FILE",
        check=new_file,
    )
    as_json: Json = False
    strict: bool = option(False, "treat warnings as failures")
    programs: str | None = MANY.option(
        None, "the folder of programs: DIR/gemm/1.step belongs to tasks/gemm/1.yaml", "DIR"
    )
    junit: str | None = MANY.option(None, "also write JUnit XML, a test case per program", "FILE", check=writable_file)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the verdict; returns the exit code."""
    parser = Parser(NAME, "Checks programs against tasks: in STeP, syntax, types, affine use, and results.", EPILOG,
                    VerifyOptions, ProgramLimits, SandboxOptions)  # fmt: skip
    given = parser.given(argv)
    options = VerifyOptions.of(given)

    from pipeline.actions import verify_programs as action

    asked = Request(
        language=options.language,
        dtype=options.dtype,
        stress=not options.no_stress,
        explain=options.explain,
        values=options.values,
        exact=options.exact,
        sizes=options.sizes,
        ir=options.ir is not None,
        limits=ProgramLimits.of(given),
    )
    _require_offers(options)
    root = registry.tasks_folder(options.language)
    many = names_many(options.task, root)
    for shown, name in ((options.explain, "--explain"), (options.ir, "--ir"), (options.pytest, "--pytest")):
        if shown and many:
            raise UsageError(f"{name}: shows one program; name one task")
    items = resolve(options.task, options.programs, root)
    judged = action.verdicts(asked, items) if many else iter([action.verdict_on(asked, items[0])])
    found = map(action.strictly, judged) if options.strict else judged
    say = partial(print, flush=True)
    results = action.report(items, found, say, as_json=options.as_json) if many else [*found]
    if options.junit is not None:
        write_text(Path(options.junit), junit_text(results))
    if not many:
        _show(results[0], options, items[0])
    return action.exit_code(results)


def _show(verdict: Verdict, options: VerifyOptions, item: Item) -> None:
    """Writes what is asked for of one program, and prints its verdict."""
    if options.ir and verdict.ir:
        write_text(Path(options.ir), json.dumps(verdict.ir, indent=1) + "\n")
    if options.pytest and verdict.passed:
        from pipeline.actions.price_program import pytest_script

        write_text(Path(options.pytest), pytest_script(item))
    for warning in verdict.warned():
        print_message(NAME, warning)
    if options.explain:
        shown = "\n".join((verdict.streams, *(verdict.exact.steps if verdict.exact else ())))
        print(shown, end="\n\n", file=sys.stderr if options.as_json else sys.stdout)
    print(VerifyOutput(**dict(verdict)).text() if options.as_json else verdict.feedback)


def _require_offers(options: VerifyOptions) -> None:
    """Raises `UsageError` for an option that the language does not serve."""
    if options.language is None:
        return
    for name in ("explain", "values", "exact", "sizes", "ir", "pytest", "dtype"):
        if name in options.model_fields_set:
            step_only(options.language, flag(name))
    language = registry.find(options.language)
    for name in ("no_stress", "strict"):
        if getattr(options, name) and type(language).stress is Language.stress:
            raise UsageError(f"{flag(name)}: the language `{language.name}` has no stress inputs, so no warnings")


if __name__ == "__main__":
    start(NAME, main)
