"""A verifier that runs each graph once judges as one that runs every text: random pairs of programs and their edits.

How to run: python -m benchmarks.text_edits --pairs 1000000
"""

from __future__ import annotations

import argparse
import sys
from random import Random

from tests.support.text_edits import compare, pairs


def main(arguments: list[str] | None = None) -> int:
    """Prints the figures; exit code 1 if a verdict depends on what was verified before."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=100_000, help="random pairs (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    options = parser.parse_args(arguments)
    figures = compare(pairs(Random(options.seed)), options.pairs)
    print(
        f"{figures.pairs:,} pairs: {figures.of_one_tree:,} of one tree, {figures.of_one_graph:,} of one graph"
        f" ({figures.passing:,} pass), {len(figures.disagreeing):,} disagree"
    )
    for one, other in figures.disagreeing[:5]:
        print(f"--- one\n{one}\n--- the other\n{other}")
    return int(bool(figures.disagreeing))


if __name__ == "__main__":
    sys.exit(main())
