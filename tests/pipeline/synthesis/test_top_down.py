"""Subgoals that are found top-down let the search reach deeper."""

import pytest

from pipeline.synthesis import SearchBudget, bidirectional_search, synthesize
from pipeline.synthesis.observation import Landmarks
from pipeline.synthesis.phases import DECLARED, Depth, Phase, RoundLimits
from pipeline.synthesis.top_down import TopDown
from step_runtime.verification.loading import load_task
from tests.support.paths import PROJECT

DATA = PROJECT / "data"


def test_going_backward_reaches_deeper(monkeypatch: pytest.MonkeyPatch) -> None:
    """LayerNorm is found within so many candidates, and not bottom-up alone, if no landmark shows the way."""
    depth = Depth("no end", RoundLimits(40, 8_000, True, once=False), 1.0)
    monkeypatch.setattr(bidirectional_search, "PHASES", (Phase(DECLARED, depth),))
    monkeypatch.setattr(Landmarks, "reached", lambda *args: iter(()))
    given, budget = load_task(DATA / "tasks" / "norm" / "0.yaml"), SearchBudget(seconds=1200, candidates=30_000)
    assert synthesize(given, budget).impl is not None
    monkeypatch.setattr(TopDown, "_push", lambda *args: None)
    assert synthesize(given, budget).reason == "candidates"
