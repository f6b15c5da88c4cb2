"""Compares the simulator with the token semantics on random programs.

How to run: python -m benchmarks.tokens --programs 5000 --seed 0
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from random import Random

import torch

from tests.support.agreement import disagreement
from tests.support.random_programs import random_case


def main(arguments: list[str] | None = None) -> int:
    """Generates programs, prints counts by primitive and every disagreement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    counts: Counter[str] = Counter()
    start, wrong = time.perf_counter(), 0
    for number in range(options.programs):
        case = random_case(Random(f"{options.seed}/{number}"))
        counts += case.primitives()
        try:
            problem = disagreement(case)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem is not None:
            wrong += 1
            print(f"program {options.seed}/{number}: {problem}")
    for name, count in counts.most_common():
        print(f"{name:10} {count:6}")
    seconds = time.perf_counter() - start
    print(f"{options.programs} programs, {wrong} disagreements, {seconds:.0f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
