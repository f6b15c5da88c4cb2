"""Tries random edits of programs, answers, task files, records and settings on whatever reads them.

Prints for each target the number of texts, what came of them, and the slowest. Ends with an error on a text that breaks
a target, the shortest that Hypothesis finds.

How to run: python scripts/fuzz.py [TARGET…] [--examples 10000] [--seed 0]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.fuzzing import TARGETS, fuzz


def main(arguments: list[str] | None = None) -> int:
    """Runs the targets one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)} (default: all)")
    parser.add_argument("--examples", type=int, default=10_000, help="texts for each (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    options = parser.parse_args(arguments)
    if unknown := set(options.targets) - TARGETS.keys():
        parser.error(f"no target {', '.join(sorted(unknown))}; expected {', '.join(TARGETS)}")
    for name in options.targets or TARGETS:
        print(f"{name}: {fuzz(name, options.examples, options.seed)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
