"""The artifacts of a run: downloading them while another process may write them, and deleting some."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.base.errors import UsageError
from pipeline.base.text import first_line

if TYPE_CHECKING:
    from mlflow import MlflowClient

TRIES = 3
"""Downloads of a folder: one fails if the run's owner deletes a file that it has listed."""


def download(client: MlflowClient, run_id: str, path: str, folder: Path) -> Path:
    """Downloads an artifact, or a folder of them, below `folder`; returns its path there.

    Raises:
        UsageError: It cannot be read.
    """
    from mlflow.exceptions import MlflowException

    for _ in range(TRIES):
        try:
            return Path(client.download_artifacts(run_id, path, str(folder)))
        except (MlflowException, OSError) as error:
            failure = first_line(error)
    raise UsageError(f"run {run_id[:8]}: cannot read its artifacts: {failure}")


def delete(client: MlflowClient, run_id: str, paths: Iterable[str]) -> None:
    """Deletes artifacts of a run."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    root = client.get_run(run_id).info.artifact_uri
    repository: Any = get_artifact_repository(root, tracking_uri=client.tracking_uri)
    for path in paths:
        repository.delete_artifacts(path)
