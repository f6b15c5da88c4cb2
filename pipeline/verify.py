"""`python -m pipeline.verify TASK [IMPL]`: the verdict on one program, or on many.

Worker processes read the task, run its code and judge the program; this process imports neither torch nor the language.
"""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Annotated

from pipeline.base.choices import FloatType
from pipeline.base.errors import Exit, UsageError, print_message, start
from pipeline.base.files import writable_file
from pipeline.base.settings import Config, Count, Option, Positive
from pipeline.cli.options import Json, Parser

NAME = "pipeline.verify"
EPILOG = """\
several programs at once: every name that ends in .yaml or .yml, every folder, pattern and benchmark name is a task;
any other file, and -, is the program of the task named before it. A task without one is judged by its own `impl`.

examples:
  python -m pipeline.verify gemm/1 my_program.step
  python -m pipeline.verify my_task.yaml - --json < my_program.step
  python -m pipeline.verify a.yaml a.step b.yaml b.step 'solved/*.yaml' --junit report.xml
  python -m pipeline.verify my_tasks/ --programs my_programs/ --strict
  python -m pipeline.verify my_task.yaml my_program.step --watch

exit codes: 0 every program passes, 1 some program does not, 2 a bad option or file, 130 interrupted"""

MANY = "several programs"
LIMITS = "limits of a program"


class VerifyOptions(Config):
    """Which programs, and what to show beside the verdicts."""

    task: Annotated[
        tuple[str, ...],
        Option(
            "a task (a file, or a benchmark name such as gemm/1), and a file with the program, - for stdin (default:"
            " the task's own `impl`); or several of both, folders and patterns included: see below",
            metavar="TASK",
            nargs="+",
            positional=True,
        ),
    ]
    dtype: Annotated[FloatType, Option("the floating type to compute in")] = "float64"
    explain: Annotated[bool, Option("print every stream with its element type and dims")] = False
    values: Annotated[bool, Option("if values are wrong, print the first stream unlike any in the reference")] = False
    no_stress: Annotated[
        bool, Option("skip the stress inputs, on which programs that pass are run in float32 beside the reference")
    ] = False
    graph: Annotated[str | None, Option("draw the dataflow: .svg, .png or .pdf", metavar="FILE")] = None
    cost: Annotated[bool, Option("show what a program that passes costs, as pipeline.cost does")] = False
    as_json: Json = False
    strict: Annotated[bool, Option("a program with warnings fails")] = False
    programs: Annotated[
        str | None,
        Option("the folder with the programs of tasks: tasks/gemm/1.yaml has DIR/gemm/1.step", MANY, "DIR"),
    ] = None
    junit: Annotated[
        str | None, Option("also write JUnit XML, a test case per program", MANY, "FILE", check=writable_file)
    ] = None
    sarif: Annotated[
        str | None, Option("also write all findings as SARIF 2.1.0", MANY, "FILE", check=writable_file)
    ] = None
    watch: Annotated[bool, Option("verify again what changes on disk, until Ctrl-C", MANY)] = False


class LimitOptions(Config):
    """The limits of a program; the defaults are those of `step_runtime.Limits`."""

    limit_seconds: Annotated[Positive | None, Option("processor time of one run (default: 10)", LIMITS, "SECONDS")] = (
        None
    )
    limit_bytes: Annotated[
        Count | None, Option("bytes that its streams hold at a time (default: 1073741824)", LIMITS, "N")
    ] = None
    limit_numbers: Annotated[
        Count | None, Option("numbers that its streams carry, all together (default: 4294967296)", LIMITS, "N")
    ] = None
    limit_primitives: Annotated[Count | None, Option("primitives, after unrolling (default: 1000)", LIMITS, "N")] = None
    limit_dims: Annotated[Count | None, Option("dims of one stream (default: 32)", LIMITS, "N")] = None
    limit_steps: Annotated[Count | None, Option("steps of unrolling it (default: 100000)", LIMITS, "N")] = None
    limit_characters: Annotated[Count | None, Option("characters of its source (default: 20000)", LIMITS, "N")] = None
    limit_depth: Annotated[Count | None, Option("levels of nesting (default: 80)", LIMITS, "N")] = None


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the verdict; returns 0 if every program passes, otherwise 1."""
    parser = Parser(NAME, "Checks STeP programs against tasks: syntax, types, affine use, and results.", EPILOG,
                    VerifyOptions, LimitOptions)  # fmt: skip
    given = parser.given(argv)
    options, limits = VerifyOptions.of(given), LimitOptions.of(given).params()

    from pipeline.actions import verify_programs as action

    settings = action.settings(
        options.dtype,
        {name.removeprefix("limit_"): value for name, value in limits.items()},
        explain=options.explain,
        values=options.values,
        stress=not options.no_stress,
        strict=options.strict,
        junit=options.junit,
        sarif=options.sarif,
    )
    say = partial(print, flush=True)
    for shown, name in ((options.explain, "--explain"), (options.graph, "--graph"), (options.cost, "--cost")):
        if shown and (options.watch or action.names_many(options.task)):
            advice = "omit --watch" if options.watch else "name one task"
            raise UsageError(f"{name}: shows one program; {advice}")
    if options.watch:
        if options.as_json:
            raise UsageError("--watch: prints many verdicts and no JSON object; omit --json")
        action.watch(settings, options.task, options.programs, say)
    items = action.resolve(options.task, options.programs)
    if action.names_many(options.task):
        return action.run_batch(settings, items, say, as_json=options.as_json)
    result = action.run_single(settings, items[0], options.graph)
    for warning in result.verdict.warnings:
        print_message(NAME, action.warning_line(warning))
    if options.explain:
        print(result.table, end="\n\n", file=sys.stderr if options.as_json else sys.stdout)
    costs = action.cost_of(items[0]) if options.cost and result.verdict.passed else None
    if options.as_json:
        print(action.single(result, costs and costs.figures).text())
    else:
        print(result.text, *(["", costs.table] if costs else []), sep="\n")
    return Exit.OK if result.verdict.passed else Exit.NO


if __name__ == "__main__":
    start(NAME, main)
