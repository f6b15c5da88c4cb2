"""`python -m pipeline.evaluate --program P`: how often a program is right, and how varied its answers are.

One pass over the tasks, sampled and verified as in a compile, with the same answers, counts and tokens.
"""

from collections.abc import Sequence

from pipeline.base.config import ProgramConfig, Tasks
from pipeline.base.errors import start
from pipeline.base.outputs import json_text
from pipeline.base.settings import Config, option
from pipeline.cli.options import Json, Parser, command_line, require_ready
from pipeline.verification.isolation.confinement import SandboxOptions

NAME = "pipeline.evaluate"
EPILOG = """\
examples:
  python -m pipeline.evaluate --program mlruns/programs/adaptive-embedded-1234abcd.json
  python -m pipeline.evaluate --program none --tasks 'gemm/*' my_task.yaml --samples 16 --temperatures 0.7 --json

the agent's settings are those of a compiled program; only `--program none` has defaults

exit codes: 0 the figures are printed, 2 a bad option or file, 3 the LM can't be used,
130 interrupted (the figures cover the answers so far)"""


class EvaluateOptions(Config):
    """Which tasks, and where the figures go."""

    tasks: Tasks = None
    as_json: Json = False
    record: bool = option(False, "record it as a run, for the UI and the report")


def main(argv: Sequence[str] | None = None) -> int:
    """Evaluates; see the exit codes."""
    parser = Parser(NAME, "Measures a program on tasks: pass@k in total, by group and by class.", EPILOG,
                    ProgramConfig, EvaluateOptions, SandboxOptions)  # fmt: skip
    parser.arguments["program"].required = True
    given = parser.given(argv)
    options, config = EvaluateOptions.of(given), ProgramConfig.of(given)
    require_ready(config, options.tasks)

    from pipeline.actions import evaluate_program as action

    command = command_line(NAME, argv) if options.record else None
    result = action.evaluate_program(NAME, config, options.tasks, command)
    figures = action.figures(result)
    if options.as_json:
        print(json_text(NAME, figures))
    else:
        action.print_figures(figures)
    return action.exit_code(NAME, result)


if __name__ == "__main__":
    start(NAME, main)
