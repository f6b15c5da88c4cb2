"""The artifacts of a run: downloading them while another process may write them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.base.errors import UsageError
from pipeline.base.text import first_line

if TYPE_CHECKING:
    from mlflow import MlflowClient

TRIES = 3
"""Downloads of a folder: one fails if the run's process replaces a file that it has listed."""


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
