"""`python -m pipeline.cost TASK [IMPL]`: the cost of a program on the chip."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.base.errors import Exit, UsageError, start
from pipeline.base.outputs import json_text
from pipeline.base.settings import Config, Count, option, sizes_of, sizes_text
from pipeline.cli.options import Json, Parser, ProgramName, read_program
from pipeline.verification.isolation.confinement import SandboxOptions
from pipeline.verification.task_files import load_one_with_warnings

if TYPE_CHECKING:
    from pipeline.actions.price_program import Subject
    from step_runtime.base.errors import Diagnostic

NAME = "pipeline.cost"
EPILOG = """\
examples:
  python -m pipeline.cost norm/2 my_program.step
  python -m pipeline.cost norm/2 my_program.step --sizes D=1024,N=64 --sram 65536 --svg cost.svg
  python -m pipeline.cost norm/2 --compare streaming.step buffered.step
  python -m pipeline.cost --calibrate measured.csv > chip.yaml

docs/cost.md explains every figure and the file of a chip.

exit codes: 0 the cost is printed, 1 a program fails its checks and has no cost, 2 a bad option or file"""


class CostOptions(Config):
    """Sizes, the chip, and the form of the output."""

    sizes: str | None = option(
        None,
        "sizes to price at, such as D=16,M=5; other dims keep the first set of sizes",
        "DIM=SIZE,…",
        check=sizes_text,
    )
    calibrate: bool = option(
        False, "fit a chip to measured cycles: TASK is a CSV file with the columns kernel, cycles, loaded and tile"
    )
    chip: str | None = option(None, "a YAML file that describes the chip", "FILE")
    sram: Count | None = option(None, "bytes of on-chip memory; anything larger is stored off-chip")
    compare: tuple[str, ...] | None = option(None, "program files to compare side by side", "FILE", nargs="+")
    svg: str | None = option(None, "draw the dataflow graph annotated with costs", "FILE")
    as_json: Json = False


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the cost of a program; returns 1 if a program fails its checks."""
    given = Parser(NAME, "Shows the cost of a program: memory, off-chip traffic, operations, time and queues.", EPILOG,
                   ProgramName, CostOptions, SandboxOptions).given(argv)  # fmt: skip
    arguments, options = ProgramName.of(given), CostOptions.of(given)
    if options.compare and (arguments.impl or options.svg):
        raise UsageError("--compare names the programs itself, and draws none: leave out IMPL and --svg")

    if options.calibrate:
        from pipeline.actions.price_program import calibrated

        print(calibrated(arguments.task, options.chip))
        return Exit.OK
    task, doubts = load_one_with_warnings(arguments.task)

    from pipeline.actions import price_program as action

    names = options.compare or (arguments.impl,)
    named = [arguments.model_copy(update={"impl": name}) for name in names]
    programs = [(each.impl if each.impl not in (None, "-") else task.name, read_program(each, task)) for each in named]
    chip = action.chip_of(options.chip, options.sram)
    sizes = sizes_of(options.sizes) if options.sizes else {}
    subjects = action.price_programs(task, [(str(name), text) for name, text in programs], chip, sizes)
    if not _all_checked(subjects):
        return Exit.NO
    _show(subjects, chip.name, options, doubts)
    return Exit.OK


def _all_checked(subjects: "Sequence[Subject]") -> bool:
    """Whether every program has a cost; prints the findings of those that have none."""
    for subject in subjects:
        if isinstance(subject.priced, tuple):
            for diagnostic in subject.priced:
                print(diagnostic.render(subject.text, subject.name), file=sys.stderr)
    return not any(isinstance(subject.priced, tuple) for subject in subjects)


def _show(subjects: "Sequence[Subject]", chip: str, options: CostOptions, doubts: "Sequence[Diagnostic]") -> None:
    from pipeline.charts.dataflow import draw_cost
    from pipeline.cli.cost_tables import comparison_table, cost_json, cost_table

    priced = [(subject.name, subject.priced) for subject in subjects if not isinstance(subject.priced, tuple)]
    if options.svg:
        draw_cost(priced[0][1], Path(options.svg))
    if options.as_json:
        found = [cost_json(each, name, chip) for name, each in priced]
        warnings = [asdict(each) for each in doubts]
        print(json_text(NAME, ({"programs": found} if options.compare else found[0]) | {"warnings": warnings}))
    else:
        print(comparison_table(priced) if options.compare else cost_table(priced[0][1], priced[0][0], chip))


if __name__ == "__main__":
    start(NAME, main)
