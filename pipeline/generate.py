"""`python -m pipeline.generate TASK… --program P`: verified programs for tasks that nobody has solved yet.

- Without an option of LMs, classical synthesis searches; with one, the LM samples first.
- Only programs that pass the verifier are shown or written as solutions.
- An existing file is left unchanged, unless `--force` is given; files are written whole or not at all.
- Programs verified before an interrupt or a failure of the LM are written all the same.
"""

import time
from collections.abc import Sequence
from typing import Any, Literal

from pipeline.base.config import ClusterConfig, ProgramConfig
from pipeline.base.errors import UsageError, print_message, require, start
from pipeline.base.files import writable_folder
from pipeline.base.languages import step_only
from pipeline.base.outputs import json_text
from pipeline.base.settings import (
    ALL,
    NO_PROGRAM,
    PROPOSERS,
    SEARCH,
    Config,
    Count,
    Objective,
    OptionGroup,
    Positive,
    flag,
    option,
)
from pipeline.cli.options import Json, Parser, output_option, require_ready
from pipeline.verification.isolation.confinement import SandboxOptions

NAME = "pipeline.generate"
EPILOG = """\
examples:
  python -m pipeline.generate my_task.yaml -o solved
  python -m pipeline.generate my_task.yaml --program mlruns/programs/adaptive-embedded-1234abcd.json
  python -m pipeline.generate 'my_tasks/*.yaml' --program P -o solved --lm openai/gpt-4o --samples 16
  python -m pipeline.generate my_task.yaml --max-minutes 5
  python -m pipeline.generate my_task.yaml --objective memory -o solved

exit codes: 0 every task has a verified program, 1 some task has none, 2 a bad option or file, 3 the LM can't be used,
130 interrupted (verified programs are kept)"""

SYNTHESIS = OptionGroup(
    "the default, and after an LM: classical synthesis, which runs the task's functions and reference on data;"
    " --max-minutes is processor time per task (default: 2)"
)


class GenerateOptions(Config):
    """Which tasks, and where the programs go."""

    task: tuple[str, ...] = option(
        ..., "task files, folders, patterns, or benchmark names such as gemm/1", "TASK", nargs="+", positional=True
    )
    output: str | None = output_option(
        "write the programs to files in this folder (default: to stdout only)", "DIR", writable_folder
    )
    format: Literal["yaml", "text", "both"] = option(
        "yaml", "`yaml`, the task with its program as `impl`; `text`, the program alone"
    )
    force: bool = option(False, "overwrite existing files")
    objective: Objective = option(
        "correctness",
        "which verified program to return: `correctness`, the first one found; or the cheapest by a cost figure,"
        " which keeps searching after a task is solved",
    )
    as_json: Json = False


class SearchConfig(Config):
    """Limits of classical synthesis, for each task."""

    max_candidates: Count | None = SYNTHESIS.option(
        None,
        "maximum number of streams computed per task; unless time runs out, the same number gives the same result"
        " on any machine (default: 1 million)",
        "N",
    )
    max_minutes: Positive | None = option(None, "of processor time per task (default: 2)", "X")
    no_split: bool = SYNTHESIS.option(
        False, "search tasks as a whole only; else, in turns, also by parts: one value of the reference after the other"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Generates; see the exit codes."""
    given = _parser().given(argv)
    options, proposer, language = GenerateOptions.of(given), _proposer(given), given.get("language")
    _require_offers(options, proposer, language)
    _check_options(given, proposer)

    lm = None
    if proposer == ALL:
        lm = ProgramConfig.of({"program": NO_PROGRAM} | {k: v for k, v in given.items() if k != "proposer"})
    elif proposer != SEARCH:
        lm = ProgramConfig.of(given)
    if lm is not None:
        require_ready(lm, options.task)

    from pipeline.verification.task_files import find_all, load_with_warnings, texts_of

    find_all(options.task, language)
    require("torch", "dspy")
    print_message(NAME, "reads the tasks, and tries their code")
    # Before the LM's packages are imported, so that its workers import theirs meanwhile.
    tasks, doubts = load_with_warnings(options.task, language)
    from pipeline.actions import generate_programs as action

    files = action.output_files(tasks, options.output, options.format, language, force=options.force)
    limits, searching = SearchConfig.of(given), None
    if proposer in (ALL, SEARCH):
        searching = action.Searching(
            limits.max_minutes or action.MINUTES, limits.max_candidates or action.CANDIDATES, not limits.no_split
        )
    generation = action.Generation(NAME, tasks, lm or ClusterConfig.of(given), lm, searching, options.objective)
    texts = texts_of(options.task) if language is None else {}
    start = time.monotonic()
    generation.run()
    action.write(generation, files, texts)
    if options.as_json:
        result = {"proposer": proposer, "seconds": round(time.monotonic() - start, 3)}
        print(json_text(NAME, result | action.as_json(generation, files, doubts)))
    else:
        print(action.text(generation, files, doubts))
    return action.exit_code(NAME, generation)


def _parser() -> Parser:
    """The command's options; `--max-minutes` belongs to both the budget of an LM and to synthesis."""
    parser = Parser(NAME, "Writes programs for tasks, and shows only those that pass the verifier.", EPILOG,
                    GenerateOptions, ProgramConfig, SearchConfig, SandboxOptions)  # fmt: skip
    proposer = parser.arguments["proposer"]
    proposer.choices, proposer.type = (*PROPOSERS, SEARCH, ALL), None
    proposer.help = (
        f"`{SEARCH}`, classical synthesis without an LM, see below: the default without an option of LMs; `{ALL}`, an"
        f" LM, then `{SEARCH}`: the default with one, but for --program;"
        f" {str(proposer.help).replace(' (default: predict)', '')}"
    )
    return parser


def _proposer(given: dict[str, Any]) -> str:
    """The proposer given, or the default: a program's own; the LM and a search with an option of LMs; or a search."""
    of_lms = ProgramConfig.model_fields.keys() - ClusterConfig.model_fields.keys() - SearchConfig.model_fields.keys()
    otherwise = ALL if given.keys() & of_lms else SEARCH
    return str(given.get("proposer", PROPOSERS[0] if "program" in given else otherwise))


def _check_options(given: dict[str, Any], proposer: str) -> None:
    """Raises `UsageError` for options that the proposer does not use, or lacks."""
    if proposer == ALL:
        return
    if proposer == SEARCH:
        allowed = {"proposer", *SearchConfig.model_fields, *GenerateOptions.model_fields, *ClusterConfig.model_fields}
        for name in sorted(given.keys() - allowed):
            raise UsageError(f"{flag(name)}: `--proposer search` does not use an LM; omit the option")
        return
    if "program" not in given:
        raise UsageError(f"--program: name a compiled program, or `{NO_PROGRAM}` (--help shows the options)")
    if "max_candidates" in given:
        raise UsageError("--max-candidates: only a search counts candidates; omit the option")
    if "no_split" in given:
        raise UsageError("--no-split: only a search splits tasks; omit the option")


def _require_offers(options: GenerateOptions, proposer: str, language: str | None) -> None:
    """Raises `UsageError` for what the language does not offer."""
    if proposer in (ALL, SEARCH):
        step_only(language, f"--proposer {proposer}")
    if options.objective != "correctness":
        step_only(language, "--objective")


if __name__ == "__main__":
    start(NAME, main)
