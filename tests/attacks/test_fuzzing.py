"""Random edits of what comes from elsewhere break nothing that reads them; `scripts/fuzz.py` tries many more."""

import pytest

from tests.support.fuzzing import TARGETS, fuzz


@pytest.mark.parametrize("name", TARGETS)
def test_a_short_run(name: str) -> None:
    """Some texts are accepted, and some are not: the edits reach both."""
    figures = fuzz(name, examples=40, seed=1)
    assert figures.texts >= 40
    assert len(figures.outcomes) > 1, figures
