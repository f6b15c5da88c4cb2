"""The scores of moves that are fitted to solved tasks."""

from __future__ import annotations

from dataclasses import fields

import pytest

from pipeline.lms.embedded.strong.move_scores import BY_HAND, FITTED, MoveScores


@pytest.mark.parametrize("name", [field.name for field in fields(MoveScores)])
def test_a_fitted_score_keeps_its_sign_and_its_order_of_magnitude(name: str) -> None:
    """From a third to three times the score by hand: the fit knows nothing of drafts that searches never reach."""
    assert 0.32 <= getattr(FITTED, name) / getattr(BY_HAND, name) <= 3.01
