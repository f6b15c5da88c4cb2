"""What two runs have in common that took the same way, however often one of them was interrupted."""

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from mlflow import MlflowClient

from pipeline.record import store
from pipeline.record.attempts import read_attempts


def timeless(value: Any) -> Any:
    """JSON data without durations."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if "seconds" not in key}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def digests(run_id: str) -> dict[str, str]:
    """Of a run in the store: its attempts, its experience, its demonstrations and prompts, its metrics, its files."""
    client = MlflowClient(tracking_uri=store.store_uri())
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(client.download_artifacts(run_id, "", scratch))
        order = sorted(read_attempts(client, run_id), key=lambda a: (a.iteration, a.task, -a.temperature, a.sample))
        parts = {
            "attempts": timeless([attempt.to_dict() for attempt in order]),
            "experience": timeless(json.loads((folder / "experience.json").read_text())),
            "shown": {
                path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*/*.yaml"))
            },
            "metrics": {
                name: [(point.step, point.value) for point in client.get_metric_history(run_id, name)]
                for name in client.get_run(run_id).data.metrics
                if "seconds" not in name
            },
            "files": sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()),
        }
    return {name: hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest() for name, part in parts.items()}
