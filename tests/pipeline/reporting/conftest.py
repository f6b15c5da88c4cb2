"""Recorded runs that the tests of reports read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from optimizers import Budget
from pipeline.record.recorder import recorded
from pipeline.reporting.runs import RecordedRun, read_runs
from tests.pipeline.conftest import Recorded
from tests.support.scripted_runs import learn, tasks


@pytest.fixture
def store_of_run(recorded_run: Recorded, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """The store that holds the scripted run, and nothing else."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{recorded_run.folder}/mlflow.db")
    return recorded_run


@pytest.fixture
def run_read(store_of_run: Recorded) -> RecordedRun:
    (run,) = read_runs([])
    return run


@pytest.fixture
def three_runs(store_folder: Path) -> Iterator[None]:
    for name, params in [("adaptive a", {"granularity": 3}), ("adaptive b", {"granularity": 1}), ("none a", {})]:
        with recorded(name, {"lm": "scripted", **params}, tasks()) as recorder:
            learn([recorder], budget=Budget(iterations=1))
    yield
