"""Random edits of what comes from elsewhere break nothing that reads them; `scripts/fuzz.py` tries many more."""

from pathlib import Path

import pytest

from benchmarks.soak import soak
from tests.pipeline.conftest import empty_store, store_folder, unrendered
from tests.support.fuzzing import TARGETS, fuzz


@pytest.mark.parametrize("name", TARGETS)
def test_a_short_run(name: str) -> None:
    """Some texts are accepted, and some are not: the edits reach both."""
    figures = fuzz(name, examples=40, seed=1)
    assert figures.texts >= 40
    assert len(figures.outcomes) > 1, figures


__all__ = ["empty_store", "store_folder", "unrendered"]


@pytest.mark.slow
@pytest.mark.usefixtures("store_folder", "unrendered")
def test_a_short_soak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two samples a task and temperature; `benchmarks.soak` takes more, and looks at memory and open files too."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setattr("optimizers.requests._wait", lambda error, attempt: 0.0)
    monkeypatch.chdir(tmp_path)
    report = soak(30, tmp_path)
    assert report.samples == 30
    assert all(report.checks.values()), report
