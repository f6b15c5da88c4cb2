"""Runs are created once, also where a request to create one is repeated after the server has done it."""

from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from optimizers import IterationStarted
from pipeline.record import store
from pipeline.record.run_tree import RunRecord, create_parent


def event(index: int, label: str, cycle: int) -> IterationStarted:
    return IterationStarted(index, label, cycle, ("easy/0",), (), ("a", "b"), 8, None, {})


def test_a_run_whose_creation_is_repeated_is_there_once(
    store_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent and a nested one; another process that resumes the run uses both."""
    original = MlflowClient.create_run

    def twice(*args: Any, **kwargs: Any) -> Any:
        original(*args, **kwargs)
        return original(*args, **kwargs)

    monkeypatch.setattr(MlflowClient, "create_run", twice)
    client, experiment = store.open_store()
    writer = store.this_process()
    parent = create_parent(client, experiment, "a run", {"seed": 3, "command": "python"}, writer)
    assert store.writer_of(client, parent) == writer
    run = client.get_run(parent)
    assert (run.data.params, run.data.tags["command"], run.info.run_name) == ({"seed": "3"}, "python", "a run")
    nested: list[str] = []
    for _ in range(2):
        record = RunRecord(client, experiment, parent, tmp_path)
        record.start_nested(event(2, "HM_1", 1))
        nested.append(str(record.nested))
    assert nested[0] == nested[1]
    assert client.get_run(nested[0]).data.params["tasks"] == "a, b"
    assert {found.info.run_id for found in client.search_runs([experiment])} == {parent, nested[0]}
