"""`none` is one pass, without demonstrations."""

from __future__ import annotations

from optimizers.strategies.base import DemoSet
from optimizers.strategies.none import NoDemonstrations
from tests.support.entries import SOLVED, Progress


def test_one_set_without_demonstrations_whatever_is_solved() -> None:
    """The compiled program carries none either."""
    progress = Progress({solved.name: solved for solved in SOLVED})
    assert list(NoDemonstrations().demo_sets(progress)) == [DemoSet("None")]
    assert list(NoDemonstrations("mipro", "mipro").demo_sets(progress)) == [DemoSet("mipro")]
    assert list(NoDemonstrations().candidates(progress)) == []
