"""`python -m pipeline.ablate`: the paper's ablation for the given LMs, as recorded runs and one page.

Four methods on the same tasks, each a run like those of `pipeline.compile`, with a budget of its own: a single LM
without the structural IR, a single LM, the agent, and the agent with learning. `--resume` completes an interrupted one.
"""

from collections.abc import Sequence

from pipeline.base.choices import EMBEDDED
from pipeline.base.config import EARLIER_RUNS, LM, SAMPLING, AblationConfig, Tasks
from pipeline.base.errors import Exit, UsageError, start
from pipeline.base.files import writable_folder
from pipeline.base.outputs import json_text
from pipeline.base.settings import Config, Temperature, option
from pipeline.cli.options import Json, Parser, TrackingURI, command_line, output_option

NAME = "pipeline.ablate"
EPILOG = """\
examples:
  python -m pipeline.ablate
  python -m pipeline.ablate --lm embedded embedded/small --samples 16 -o ablation
  OPENAI_API_KEY=... python -m pipeline.ablate --lm openai/gpt-4o --max-usd 5      up to 5 USD for each of four runs
  python -m pipeline.ablate --resume 1a2b3c4d

exit codes: 0 the page is written, 2 a bad option or file, 3 an LM or the record can't be used,
130 interrupted (the results so far are kept)"""


class PlanOptions(AblationConfig):
    """What is ablated."""

    tasks: Tasks = None
    lm: tuple[str, ...] = LM.option(
        (EMBEDDED,), "DSPy/LiteLLM model strings such as openai/gpt-4o, or `embedded`", "MODEL", nargs="+"
    )
    temperature: Temperature = SAMPLING.option(
        0.7, "of the methods that don't learn; --temperatures is for the one that does", "T"
    )
    experience: str | None = EARLIER_RUNS.option(
        None,
        "the run whose programs --skills are mined from, without those of the tasks to be sampled; all four methods"
        " are shown the same skills",
        "RUN|FILE",
        resume="input",
    )


class AblateOptions(Config):
    """What the command does beside the runs."""

    output: str | None = output_option("where the page goes (default: a folder in mlruns)", "DIR", writable_folder)
    as_json: Json = False
    resume: str | None = option(
        None,
        "complete an interrupted ablation, with its own options and tasks and without repeating recorded requests;"
        " --threads, --api-base and the budget may differ",
        "ABLATION",
    )
    tracking_uri: TrackingURI = None


def main(argv: Sequence[str] | None = None) -> int:
    """Makes the runs that are missing, then writes the page; see the exit codes."""
    given = Parser(NAME, "Measures what the structural IR, the guardian and learning each contribute.", EPILOG,
                   PlanOptions, AblateOptions).given(argv)  # fmt: skip
    options, plan_options = AblateOptions.of(given), PlanOptions.of(given)
    if len(set(plan_options.lm)) < len(plan_options.lm):
        raise UsageError("--lm: an LM is named twice")

    from pipeline.actions import run_ablation as action

    if options.resume:
        plan, earlier = action.resume(options.resume, given, PlanOptions)
    else:
        inputs = (plan_options.lm, plan_options.temperature, plan_options.tasks, plan_options.experience)
        plan, earlier = action.new_plan(plan_options, *inputs), {}
    command = command_line(NAME, argv)
    if code := action.run(NAME, plan, earlier, command):
        return code
    page = action.write_page(plan, options.output)
    if options.as_json:
        print(json_text(NAME, page))
    else:
        action.print_figures(page)
    return Exit.OK


if __name__ == "__main__":
    start(NAME, main)
