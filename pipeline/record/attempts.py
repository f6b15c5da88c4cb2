"""The attempts of a run on disk: writing and reading `attempts.jsonl` and `attempts.jsonl.gz`.

While an iteration runs, its file grows by one JSON object per line. When the iteration ends, or when a later command
finds the file of a killed process, a sorted, compressed file replaces it, which is uploaded as an artifact.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizers import Attempt, AttemptLog
from pipeline.base.errors import UsageError
from pipeline.base.redaction import redacted
from pipeline.base.text import first_line

if TYPE_CHECKING:
    from mlflow import MlflowClient

FILE = "attempts.jsonl"
COMPRESSED = f"{FILE}.gz"
FOLDERS = ("iterations", "validation")
"""The artifact folders that hold attempts, one subfolder an iteration or a level's validation."""


class AttemptWriter:
    """The growing file of an iteration's attempts.

    Args:
        folder: The iteration's folder, which must not exist yet.
        recorded: Attempts of this iteration that are already recorded; the new file replaces theirs.

    Raises:
        OSError: The file cannot be written; also raised by the methods.
    """

    def __init__(self, folder: Path, recorded: Iterable[Attempt] = ()) -> None:
        self._path = folder / FILE
        folder.mkdir(parents=True)
        partial = self._path.with_suffix(".partial")
        with partial.open("w", encoding="ascii") as file:
            file.writelines(map(_line, recorded))
        partial.replace(self._path)  # at once: this file will replace the recorded one
        self._file = self._path.open("a", encoding="ascii", buffering=1)

    def write(self, attempt: Attempt) -> None:
        """Writes an attempt at once."""
        self._file.write(_line(attempt))

    def close(self, key: Callable[[Mapping[str, Any]], Any]) -> Path:
        """Closes the file and compresses it; see `compress`."""
        self._file.close()
        return compress(self._path, key)


def compress(path: Path, key: Callable[[Mapping[str, Any]], Any] | None = None) -> Path:
    """Replaces a file of attempts by a compressed one, `NAME.gz`.

    A line that a killed process left half-written is dropped; of two attempts at one sample the later one stays.

    Args:
        path: Path of the file.
        key: Sort key of the attempts; None keeps their order.

    Returns:
        The path of the compressed file.
    """
    compressed, partial = path.with_name(f"{path.name}.gz"), path.with_name(f"{path.name}.gz.partial")
    starts: dict[tuple[Any, ...], tuple[Any, int]] = {}
    start = 0
    with path.open("rb") as lines:  # only the offsets of the lines are kept in memory
        for line in lines:
            if line.endswith(b"\n"):
                attempt = json.loads(line)
                sample = attempt["task"], attempt["temperature"], attempt["sample"]
                starts[sample] = (key(attempt) if key else 0, start)
            start += len(line)
        ordered = sorted(starts.values(), key=lambda found: found[0])
        with partial.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
            for _, start in ordered:
                lines.seek(start)
                packed.write(lines.readline())
    partial.replace(compressed)
    path.unlink()
    return compressed


def read_folder(folder: Path, kinds: Iterable[str] = FOLDERS) -> Iterator[tuple[str, Attempt]]:
    """The attempts in a run's downloaded artifacts, each with the name of its subfolder, such as `03_HM`.

    Args:
        folder: The folder of the artifacts.
        kinds: Which of `FOLDERS` to read.

    Raises:
        UsageError: A file of attempts is damaged.
    """
    for path in sorted(path for kind in kinds for path in folder.glob(f"{kind}/*/{COMPRESSED}")):
        try:
            with gzip.open(path, "rt", encoding="ascii") as lines:
                for line in lines:
                    yield path.parent.name, Attempt.from_dict(json.loads(line))
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            where = path.relative_to(folder)
            raise UsageError(f"{where}: cannot read the attempts: {first_line(error)}") from None


def read_attempts(client: MlflowClient, run_id: str) -> AttemptLog:
    """All recorded attempts of a run, those of its validation included, iteration by iteration.

    Raises:
        UsageError: A file of attempts is damaged.
    """
    log = AttemptLog()
    with tempfile.TemporaryDirectory() as scratch:
        for item in client.list_artifacts(run_id):
            if item.path in FOLDERS:
                client.download_artifacts(run_id, item.path, scratch)
        try:
            for _, attempt in read_folder(Path(scratch)):
                log.append(attempt)
        except UsageError as error:
            raise UsageError(f"run {run_id[:8]}: {error}") from None
    return log


def _line(attempt: Attempt) -> str:
    return redacted(json.dumps(attempt.to_dict())) + "\n"
