"""The soak, short."""

from pathlib import Path

import pytest

from benchmarks.soak import soak
from tests.pipeline.conftest import empty_store, store_folder, unrendered

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
