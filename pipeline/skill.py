"""`python -m pipeline.skill -o DIR`: the language as an Agent Skill, and its gain for an LM.

The skill's references are the language's own prompt, the cookbook, and the solutions of a compiled program. `--measure`
samples an LM with and without it on tasks that it does not contain, and writes the figures into it, whatever they are.
"""

from collections.abc import Sequence
from pathlib import Path

from pipeline.actions.write_skill import make_skill
from pipeline.base.choices import NO_PROGRAM
from pipeline.base.config import LM, BudgetConfig, LMConfig, ProgramConfig, SamplingConfig, Tasks
from pipeline.base.errors import UsageError, print_message, start
from pipeline.base.files import writable_folder
from pipeline.base.languages import LanguageName
from pipeline.base.settings import Config, flag, option
from pipeline.cli.options import Parser, TrackingURI, output_option
from pipeline.verification.sandbox import SandboxOptions

NAME = "pipeline.skill"
SAMPLES, TEMPERATURES = 4, (0.7,)
EPILOG = """\
examples:
  python -m pipeline.skill -o .claude/skills/step
  python -m pipeline.skill -o skills/step --program mlruns/programs/adaptive-embedded-1234abcd.json
  python -m pipeline.skill -o skills/step --measure --lm openai/gpt-4o-mini --tasks my_tasks/ --force

exit codes: 0 the skill is written, and with --measure it helps, 1 --measure found no gain (the skill is written and
says so), 2 a bad option or file, 3 the LM can't be used, 130 interrupted"""


class SkillOptions(Config):
    """The content of the skill, and whether it is measured."""

    output: str = output_option(
        "the folder of the skill; its name is the skill's name", "DIR", writable_folder, required=True
    )
    language: LanguageName = None
    program: str | None = option(None, "a compiled program, whose verified solutions the skill shows", "P")
    force: bool = option(False, "overwrite an existing skill")
    measure: bool = option(False, "measure the skill's gain for an LM, and write the figures into the skill")
    tasks: Tasks = None
    lm: str | None = LM.option(None, "a DSPy/LiteLLM model string (default: embedded)", "MODEL")
    tracking_uri: TrackingURI = None


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the skill; see the exit codes."""
    parser = Parser(NAME, "Writes an Agent Skill of the language, and measures its gain for a model.", EPILOG,
                    SkillOptions, LMConfig, SamplingConfig, BudgetConfig, SandboxOptions)  # fmt: skip
    for name, default in (("samples", SAMPLES), ("temperatures", TEMPERATURES[0])):
        text = str(parser.arguments[name].help)
        parser.arguments[name].help = f"{text.partition(' (default: ')[0]} (default: {default})"
    given = parser.given(argv)
    options = SkillOptions.of(given)
    only_measured = sorted(given.keys() - {"output", "language", "program", "force", "measure", "tracking_uri"})
    if only_measured and not options.measure:
        raise UsageError(f"{flag(only_measured[0])}: only --measure asks an LM; add it, or omit the option")

    from pipeline.actions import measure_skill
    from pipeline.actions import write_skill as action
    from pipeline.running.learned import learned_agent, solved_examples
    from pipeline.verification.task_files import load_tasks

    folder = Path(options.output)
    action.skill_name(folder)
    action.check_folder(folder, force=options.force)
    learned = {}
    if options.program is not None:
        learned = solved_examples(learned_agent(options.program, lambda line: print_message(NAME, line)))
    skill, measured = make_skill(learned), None
    if options.measure:
        asked = {name: value for name, value in given.items() if name in ProgramConfig.model_fields}
        defaults = {"samples": SAMPLES, "temperatures": TEMPERATURES}
        config = ProgramConfig.of(defaults | asked | {"program": NO_PROGRAM})
        measured = measure_skill.measure(NAME, skill, config, load_tasks(options.tasks, options.language))
        print(measured.text())
    for path in action.write_skill(skill, folder, measured.text() if measured else action.UNMEASURED):
        print(path)
    return measure_skill.exit_code(measured)


if __name__ == "__main__":
    start(NAME, main)
