"""The example holds these.

- The optimizer solves more than as many samples without demonstrations do, on a program that is none of ours.
- It runs as its docstring says, from anywhere.
"""

import subprocess
import sys
from pathlib import Path

from examples import units
from optimizers import AdaptiveFewShot, SinglePass
from tests.support.paths import PROJECT

EXAMPLES = PROJECT / "examples"


def test_learning_solves_what_sampling_alone_does_not() -> None:
    """Of the far units more than a pass of as many samples on every task; and it does so by demonstrations."""
    learned = units.learn(AdaptiveFewShot, 8)
    plain = units.learn(SinglePass, 8 * len(learned.iterations))
    first, later = set(learned.iterations[0].solved), {key for it in learned.iterations[1:] for key in it.solved}
    assert len(learned.solved) == len(learned.tasks)
    assert set(plain.solved) < set(learned.solved)
    assert later - set(plain.solved), "demonstrations taught it something"
    assert all(it.demos for it in learned.iterations if set(it.solved) - first)


def test_it_runs_as_a_script(tmp_path: Path) -> None:
    """And prints what it solved, iteration by iteration."""
    words = [sys.executable, str(EXAMPLES / "units.py")]
    done = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("1: None      0 demonstrations, solved ")
    assert "without demonstrations" in done.stdout
    assert done.stderr == ""
