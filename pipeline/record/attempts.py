"""The attempts of a run on disk: writing and reading `attempts.jsonl` and `attempts.jsonl.gz`.

While an iteration runs, its file grows by one JSON object per line, and what is new in it is uploaded in parts. When
the iteration ends, or when a later command finds the file of a killed process, a sorted, compressed file replaces it,
which is uploaded as an artifact; the parts are then deleted.

Where a reader finds parts, it merges them with that file: of several attempts at one sample it takes the one in the
whole file, otherwise the one of the latest owner (`pipeline.record.ownership`), but no attempt without an answer where
there is one with an answer. An attempt therefore counts once.
"""

from __future__ import annotations

import gzip
import json
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from optimizers import Attempt, AttemptLog
from pipeline.base.errors import RecordError, UsageError
from pipeline.base.files import open_growing, replacing, write_bytes
from pipeline.base.redaction import redacted
from pipeline.base.text import first_line
from pipeline.record.artifacts import download

if TYPE_CHECKING:
    from mlflow import MlflowClient

FILE = "attempts.jsonl"
COMPRESSED = f"{FILE}.gz"
PART = "attempts.part-{}.jsonl.gz"
PARTS = PART.format("*")
"""The pattern of the names of parts, which sort by the owner's term, then by number."""
LONGEST_LINE = 2**27
"""Bytes of one attempt, whose answer may be long."""
FOLDERS = ("iterations", "validation")
"""The artifact folders that hold attempts, one subfolder an iteration or a level's validation."""


class AttemptWriter:
    """The growing file of an iteration's attempts.

    Args:
        recorded: Attempts of this iteration that are already recorded; the new file replaces theirs.

    Raises:
        OSError: The file cannot be written; also raised by the methods.
    """

    def __init__(self, folder: Path, recorded: Iterable[Attempt] = ()) -> None:
        self._path = folder / FILE
        folder.mkdir(parents=True)
        self._recorded: set[int] = set()  # hashes of lines
        with replacing(self._path) as file:  # at once: this file will replace the recorded one
            for line in map(_line, recorded):
                file.write(line.encode("ascii"))
                self._recorded.add(hash(line))
            self._sent = file.tell()  # bytes
        self._written = self._uploaded = 0  # attempts; a thread each
        self._file = open_growing(self._path)

    def write(self, attempt: Attempt) -> None:
        """Writes an attempt at once, unless it is a recorded one, which a resumed run only reads."""
        line = _line(attempt)
        if hash(line) not in self._recorded:
            self._file.write(line)
            self._written += 1

    @property
    def unsent(self) -> int:
        """Attempts written since the last part."""
        return self._written - self._uploaded

    @contextmanager
    def part(self, name: str) -> Iterator[Path | None]:
        """A compressed file of the attempts since the last part, to be uploaded in the context; None without any.

        Its name distinguishes it from other parts. If the context raises, the next part has its attempts, too. A thread
        other than the writer's may call it.
        """
        with self._path.open("rb") as lines:
            lines.seek(self._sent)
            data = lines.read()
        data = data[: data.rfind(b"\n") + 1]
        if not data:
            yield None
            return
        path = self._path.with_name(PART.format(name))
        write_bytes(path, gzip.compress(data, mtime=0))
        try:
            yield path
        finally:
            path.unlink()
        self._sent += len(data)
        self._uploaded += data.count(b"\n")

    def close(self, key: Callable[[Mapping[str, Any]], Any]) -> Path:
        """Closes the file and compresses it; see `compress`."""
        self._file.close()
        return compress(self._path, key)


def compress(path: Path, key: Callable[[Mapping[str, Any]], Any] | None = None) -> Path:
    """Replaces a file of attempts by a compressed one, `NAME.gz`, and deletes the parts beside it; returns its path.

    A line that a killed process left half-written is dropped; of two attempts at one sample the later one stays. `key`
    sorts the attempts; None keeps their order.
    """
    starts: dict[tuple[Any, ...], tuple[Any, int]] = {}
    with path.open("rb") as lines:  # only the offsets of the lines are kept in memory
        for start, line in _lines(lines):
            attempt = json.loads(line)
            starts[_sample(attempt)] = (key(attempt) if key else 0, start)
    ordered = sorted(starts.values(), key=lambda found: found[0])
    return _packed(path, [start for _, start in ordered])


def merge_parts(folder: Path) -> None:
    """Replaces the parts in an iteration's folder, and the whole file beside them, by one `attempts.jsonl.gz`.

    Of a file that was cut short while it was uploaded, the attempts until then count.
    """
    parts = sorted(folder.glob(PARTS))
    if not parts:
        return
    path, whole = folder / FILE, folder / COMPRESSED
    best: dict[tuple[Any, ...], tuple[tuple[bool, str], int]] = {}
    with replacing(path) as file:
        for source in [*([whole] if whole.exists() else []), *parts]:
            term = "~" if source == whole else source.name  # after all digits
            with _opened(source) as lines, suppress(EOFError, zlib.error, gzip.BadGzipFile):
                for line in _bounded(lines):
                    if not line.endswith(b"\n"):
                        break
                    attempt = json.loads(line)
                    sample, rank = _sample(attempt), (attempt["score"] is not None, term)
                    if sample not in best or rank > best[sample][0]:
                        best[sample] = (rank, file.tell())
                        file.write(line)
    _packed(path, [start for _, start in best.values()])


def _lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """The whole lines of a file, each with its offset."""
    start = 0
    for line in file:
        if line.endswith(b"\n"):
            yield start, line
        start += len(line)


def _bounded(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file.

    Raises:
        ValueError: A line is too long: a few bytes may unpack to more than memory holds.
    """
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise ValueError(f"a line of more than {LONGEST_LINE:,} bytes")
        yield line


def _opened(path: Path) -> IO[bytes]:
    """The lines of a compressed file; a server that keeps artifacts on S3 may hand it out decompressed."""
    with path.open("rb") as file:
        is_compressed = file.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], gzip.open(path, "rb")) if is_compressed else path.open("rb")


def _sample(attempt: Mapping[str, Any]) -> tuple[Any, ...]:
    return attempt["task"], attempt["temperature"], attempt["sample"]


def _packed(path: Path, starts: Iterable[int]) -> Path:
    """Replaces a file by a compressed one of the lines at some offsets, and deletes the parts beside it."""
    compressed = path.with_name(f"{path.name}.gz")
    with (
        path.open("rb") as lines,
        replacing(compressed) as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
    ):
        for start in starts:
            lines.seek(start)
            packed.write(lines.readline())
    path.unlink()
    for part in path.parent.glob(PARTS):
        part.unlink()
    return compressed


def read_folder(folder: Path, kinds: Iterable[str] = FOLDERS) -> Iterator[tuple[str, Attempt]]:
    """The attempts in a run's downloaded artifacts, each with the name of its subfolder, such as `03_HM`.

    Raises:
        UsageError: A file of attempts is damaged.
    """
    for own in sorted(own for kind in kinds for own in folder.glob(f"{kind}/*/")):
        path = own / COMPRESSED
        try:
            merge_parts(own)
            if not path.exists():
                continue
            with _opened(path) as lines:
                for line in _bounded(lines):
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
                download(client, run_id, item.path, Path(scratch))
        try:
            for _, attempt in read_folder(Path(scratch)):
                log.append(attempt)
        except UsageError as error:
            raise UsageError(f"run {run_id[:8]}: {error}") from None
    return log


def _line(attempt: Attempt) -> str:
    return redacted(json.dumps(attempt.to_dict())) + "\n"


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
