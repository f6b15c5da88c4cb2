"""Modules as tasks: twenty layers of `transformers` and six of `torch.nn`, imported, solved by splitting, and judged.

`differs` is the most by which a reference differs from its module. `seconds` is processor time: of the import, and of
the search. `killed` are mutants of the program found, single edits, that fail; those proved to be the same function do
not count.

How to run: python -m benchmarks.modules (many minutes; --layers, --seconds, --mutants); needs the extra `modules`
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from hashlib import sha256

from pipeline.base.errors import UsageError
from pipeline.modules.importing import import_module
from pipeline.splitting.split_search import split_all
from pipeline.synthesis import SearchBudget
from pipeline.verification.pool import LocalWorkers
from step_runtime.language.parser import parse
from step_runtime.tasks.task import Task
from step_runtime.verification.held_out import HeldOutTask
from step_runtime.verification.verify import Verifier
from tests.support.edits import mutants
from tests.support.layers import LAYERS

_COLUMNS = (
    "layer",
    "lines",
    "inputs",
    "functions",
    "derived",
    "differs",
    "seconds",
    "parts",
    "candidates",
    "seconds",
    "killed",
)


def score(task: Task, text: str, most: int) -> str:
    """How many of a program's mutants are killed, of those that are another function."""
    verifier, held = Verifier(task), HeldOutTask(task, 0)
    program, _ = parse(text, verifier.scopes[0], verifier.limits)
    found = sorted(mutants(program, verifier.scopes[0]), key=lambda each: sha256(each.text.encode()).digest())[:most]
    passed = [each for each in found if verifier.verify(each.text).passed]
    same = 0
    for each in passed:
        beyond = held.judge(each.text)
        same += beyond.passed and beyond.exact is not None and beyond.exact.answer == "proved"
    others = len(found) - same
    return f"{len(found) - len(passed)} of {others}, {(len(found) - len(passed)) / max(others, 1):.0%}"


def row(name: str, budget: SearchBudget, most: int) -> list[object]:
    """A layer's row in the table."""
    start = time.process_time()
    try:
        found = import_module(LAYERS[name])
    except UsageError as error:
        return [name, str(error)]
    task = found.task.named(name)
    lines = sum(text.count(" = ") for output in task.outputs for text in output.data_transform)
    cells: list[object] = [name, lines, len(task.inputs), len(task.fns), len(found.derived), f"{found.difference:.0e}"]
    cells.append(f"{time.process_time() - start:.1f}")
    ((_, outcome),) = split_all([task], budget, LocalWorkers(1))
    cells += [len(outcome.parts), outcome.candidates, f"{outcome.processor:.1f}"]
    return [*cells, score(task, outcome.impl, most) if outcome.impl else f"not solved: {outcome.headline}"]


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table, layer by layer."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.modules", description=__doc__.partition("\n")[0])
    parser.add_argument("--layers", nargs="*", default=[*LAYERS], help="only these")
    parser.add_argument("--seconds", type=float, default=120.0, help="of search for each (default: %(default)g)")
    parser.add_argument(
        "--mutants", type=int, default=100, help="of each program, by their hash (default: %(default)s)"
    )
    args = parser.parse_args(argv)
    print(f"| {' | '.join(_COLUMNS)} |\n{'|---' * len(_COLUMNS)}|", flush=True)
    for name in args.layers:
        print(f"| {' | '.join(map(str, row(name, SearchBudget(args.seconds, 4_000_000), args.mutants)))} |", flush=True)


if __name__ == "__main__":
    main()
