"""The cheapest rewrite that verification accepts; a wrong program is not rewritten."""

from __future__ import annotations

from pipeline.actions.optimize_program import Optimized, optimize
from step_runtime.cost.chip import DEFAULT_CHIP
from tests.step_runtime.rewriting.test_optimizing import NEEDLESS
from tests.support.oracles import task


def test_a_program_becomes_cheaper() -> None:
    found = optimize(task("norm/2"), NEEDLESS, "memory", DEFAULT_CHIP, 40)
    assert isinstance(found, Optimized)
    assert found.best.cost.memory < found.given.cost.memory
    assert "drop a round trip" in found.best.rewrites and found.refused == 0


def test_a_wrong_program_gets_its_verdict() -> None:
    found = optimize(task("norm/2"), "return E0", "memory", DEFAULT_CHIP, 40)
    assert not isinstance(found, Optimized) and found.stage == "value"
