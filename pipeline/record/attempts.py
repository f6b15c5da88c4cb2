"""The attempts of a run on disk: one JSON object a line, one folder an iteration.

A line is appended at once, in the order of completion, to the plain file `attempts.jsonl`. When the iteration ends its
lines join those of the compressed file `attempts.jsonl.gz`, which is the one that MLflow gets and that a resumed run
begins with. Of several attempts at one sample a reader takes the last, but none without an answer where there is one
with an answer. An attempt therefore counts once.
"""

from __future__ import annotations

import gzip
import json
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from optimizers import Attempt, AttemptLog
from pipeline.base.errors import RecordError, UsageError
from pipeline.base.files import open_growing, replacing
from pipeline.base.text import first_line, redacted
from pipeline.record.artifacts import download, listed

if TYPE_CHECKING:
    from mlflow import MlflowClient

FILE = "attempts.jsonl.gz"
GROWING = "attempts.jsonl"
LONGEST_LINE = 2**27
"""Bytes of one attempt, whose answer may be long."""
LARGEST = 2**33
"""Bytes of an iteration's attempts, unpacked."""
FOLDERS = ("iterations", "validation")
"""The artifact folders that hold attempts, one subfolder an iteration or a level's validation."""
DAMAGED = (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, RecursionError)
"""What reading a damaged file raises."""


class AttemptWriter:
    """The growing file of an iteration's attempts; a killed process loses none that it has written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._answered = {_sample(attempt) for attempt in read_iteration(folder) if attempt.scored}
        folder.mkdir(parents=True, exist_ok=True)
        self._file = open_growing(folder / GROWING)

    def write(self, attempt: Attempt) -> None:
        """Writes an attempt at once, unless a resumed run has only read it."""
        if _sample(attempt) not in self._answered:
            self._file.write((redacted(json.dumps(attempt.to_dict())) + "\n").encode("ascii"))
            self._file.flush()

    def close(self) -> None:
        """Ends the file, and joins its lines to the compressed one."""
        self._file.close()
        pack(self.folder)


def pack(folder: Path) -> None:
    """Joins the whole lines of an iteration's growing file to its compressed one: a half-written line is dropped."""
    growing, packed = folder / GROWING, folder / FILE
    if growing.exists():
        with replacing(packed) as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
            for path in (packed, growing):
                cast(IO[bytes], file).writelines(_lines(path))
        growing.unlink()


def read_iteration(folder: Path) -> Iterator[Attempt]:
    """The attempts in an iteration's folder, sorted by task, temperature and sample; raises one of `DAMAGED`."""
    best: dict[tuple[Any, ...], tuple[bool, int]] = {}
    size = 0
    with tempfile.TemporaryFile() as lines:  # only the offsets of the lines are kept in memory
        for line in (line for name in (FILE, GROWING) for line in _lines(folder / name)):
            size += len(line)
            if size > LARGEST:
                raise ValueError(f"more than {LARGEST:,} bytes")
            attempt = json.loads(line)
            sample = attempt["task"], attempt["temperature"], attempt["sample"]
            answered = attempt["score"] is not None
            if answered or not best.get(sample, (False, 0))[0]:
                best[sample] = answered, lines.tell()
                lines.write(line)
        for sample in sorted(best):
            lines.seek(best[sample][1])
            yield Attempt.from_dict(json.loads(lines.readline()))


def read_folder(folder: Path, kinds: Iterable[str] = FOLDERS) -> Iterator[tuple[str, Attempt]]:
    """The attempts in a run's downloaded artifacts, each with the name of its subfolder, such as `03_HM`.

    A report may rely on this: subfolders come in their order, and an iteration's attempts sorted by task, temperature
    and sample, each sample once, whether the run has finished or was killed.

    Raises:
        UsageError: A file of attempts is damaged.
    """
    for own in sorted(own for kind in kinds for own in folder.glob(f"{kind}/*/")):
        try:
            for attempt in read_iteration(own):
                yield own.name, attempt
        except DAMAGED as error:
            where = own.relative_to(folder) / FILE
            raise UsageError(f"{where}: cannot read the attempts: {first_line(error)}") from None


def read_attempts(client: MlflowClient, run_id: str, folder: Path | None = None) -> AttemptLog:
    """All recorded attempts of a run, those of its validation included, iteration by iteration.

    `folder` is where they are downloaded to, to stay there.

    Raises:
        UsageError: A file of attempts is damaged.
    """
    with tempfile.TemporaryDirectory() as scratch:
        place = folder or Path(scratch)
        for path in listed(client, run_id):
            if path in FOLDERS:
                download(client, run_id, path, place)
        try:
            return AttemptLog(attempt for _, attempt in read_folder(place))
        except UsageError as error:
            raise UsageError(f"run {run_id[:8]}: {error}") from None


def _sample(attempt: Attempt) -> tuple[int, float, int]:
    return attempt.task, attempt.temperature, attempt.sample


def _lines(path: Path) -> Iterator[bytes]:
    """The whole lines of a file, if it is there; a file that is compressed must not be cut short.

    A server that keeps artifacts on S3 may hand it out decompressed.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        is_compressed = file.read(2) == b"\x1f\x8b"
    with cast(IO[bytes], gzip.open(path, "rb")) if is_compressed else path.open("rb") as file:
        while line := file.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE:
                raise ValueError(f"a line of more than {LONGEST_LINE:,} bytes")
            if line.endswith(b"\n") or path.name != GROWING:
                yield line


@contextmanager
def reported() -> Iterator[None]:
    """Turns a full disk into the error of a failed store.

    Raises:
        RecordError: Something can't be written.
    """
    try:
        yield
    except (OSError, UsageError) as error:
        raise RecordError(f"cannot write the record of the run: {first_line(error)}") from error
