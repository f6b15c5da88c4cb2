"""Artifacts are read although another process may replace some of them meanwhile."""

from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from pipeline.base.errors import UsageError
from pipeline.record import artifacts, store


def test_a_download_is_repeated_and_its_failure_is_one_line(
    store_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, experiment = store.open_store()
    run_id = client.create_run(experiment).info.run_id
    client.log_text(run_id, "1", "folder/one.txt")
    client.log_text(run_id, "2", "folder/two.txt")
    original, failures = MlflowClient.download_artifacts, [MlflowException("gone"), OSError("gone")]

    def download(*args: object) -> object:
        if failures:
            raise failures.pop()
        return original(*args)

    monkeypatch.setattr(MlflowClient, "download_artifacts", download)
    assert (artifacts.download(client, run_id, "folder", tmp_path) / "two.txt").read_text() == "2"
    failures += [OSError("no\nanswer")] * artifacts.TRIES
    with pytest.raises(UsageError, match=rf"^run {run_id[:8]}: cannot read its artifacts: no") as caught:
        artifacts.download(client, run_id, "folder", tmp_path)
    assert "\n" not in str(caught.value)
