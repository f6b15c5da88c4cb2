"""Checks the verifier against ground truth on single-edit mutants of the oracles and on texts that alias streams.

The truth of a program is found without the parser, the simulator and the verifier (see `tests.support.truth`). Both
`wrong accepted` and `right rejected` must be 0.

How to run: python -m benchmarks.mutants
            python -m benchmarks.mutants --only norm etoe/2 --share 0.1
"""

from __future__ import annotations

import argparse
import sys
import time

import torch

from tests.support.mutants import Judged, changed, judged, table
from tests.support.oracles import solved


def main(arguments: list[str] | None = None) -> int:
    """Judges mutants and prints the table and every disagreement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=(), help="groups or tasks")
    parser.add_argument("--share", type=float, default=1.0, help="of the mutants, by a hash of their text")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    start = time.perf_counter()
    rows: list[Judged] = []
    for task, text in solved(options.only):
        own = list(judged(task, changed(task, text, options.share)))
        rows += own
        seconds = time.perf_counter() - start
        print(
            f"{task.name:10} {len(own):6} mutants, {sum(not row.agrees for row in own)} disagreements, {seconds:.0f} s"
        )
    for row in rows:
        if not row.agrees:
            print(f"{row.task}: {row.mutant.kind}: truth {row.fault}, verdict {row.stage}\n{row.mutant.text}")
    print(table(rows))
    return int(not all(row.agrees for row in rows))


if __name__ == "__main__":
    sys.exit(main())
