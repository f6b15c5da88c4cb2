"""The attempts of a run on disk: gzip members whose content is one JSON object per line.

An iteration has one file, `attempts.jsonl.gz`. It grows by each attempt at once, in the order of completion, and is
uploaded as it is when the iteration ends. Until then its new members are uploaded from time to time as files of their
own, the parts, which are deleted in the end.

A reader merges an iteration's files and sorts its attempts by task, temperature and sample. Of several attempts at one
sample it takes the one in the whole file, otherwise the one of the latest owner (`pipeline.record.ownership`), and in
one file the last; but no attempt without an answer where there is one with an answer. An attempt therefore counts once.
"""

from __future__ import annotations

import gzip
import json
import tempfile
import threading
import zlib
from collections.abc import Iterable, Iterator
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

FILE = "attempts.jsonl.gz"
PART = "attempts.part-{}.jsonl.gz"
PARTS = PART.format("*")
"""The pattern of the names of parts, which sort by the owner's term, then by number."""
LONGEST_LINE = 2**27
"""Bytes of one attempt, whose answer may be long."""
LARGEST = 2**33
"""Bytes of an iteration's attempts, unpacked."""
FOLDERS = ("iterations", "validation")
"""The artifact folders that hold attempts, one subfolder an iteration or a level's validation."""
_CUT = (EOFError, zlib.error, gzip.BadGzipFile)


class AttemptWriter:
    """The growing file of an iteration's attempts, at `path`; a killed process loses none that it has written.

    Args:
        recorded: Attempts of this iteration that are already recorded; the new file replaces theirs.

    Raises:
        OSError: The file cannot be written; also raised by the methods.
    """

    def __init__(self, folder: Path, recorded: Iterable[Attempt] = ()) -> None:
        self.path = folder / FILE
        self._recorded: set[int] = set()  # hashes of lines
        with _replacing(self.path) as file:  # at once: this file will replace the recorded one
            for line in map(_line, recorded):
                file.write(line)
                self._recorded.add(hash(line))
        self._sent = self.path.stat().st_size  # bytes
        self._written = self._uploaded = 0  # attempts
        self._file = open_growing(self.path)
        self._writing = threading.Lock()
        self._member = _new_member()

    def write(self, attempt: Attempt) -> None:
        """Writes an attempt at once, unless it is a recorded one, which a resumed run only reads."""
        line = _line(attempt)
        if hash(line) not in self._recorded:
            with self._writing:
                self._append(self._member.compress(line) + self._member.flush(zlib.Z_SYNC_FLUSH))
                self._written += 1

    @property
    def unsent(self) -> int:
        """Attempts written since the last part."""
        return self._written - self._uploaded

    @contextmanager
    def part(self, name: str) -> Iterator[Path | None]:
        """A file of the members since the last part, to be uploaded in the context; None without any.

        Its name distinguishes it from other parts. If the context raises, the next part has its attempts, too. A thread
        other than the writer's may call it.
        """
        if not self.unsent:
            yield None
            return
        with self._writing, self.path.open("rb") as file:
            self._end_member()
            file.seek(self._sent)
            data, written = file.read(), self._written
        path = self.path.with_name(PART.format(name))
        write_bytes(path, data)
        try:
            yield path
        finally:
            path.unlink()
        self._sent += len(data)
        self._uploaded = written

    def close(self) -> None:
        """Ends the file."""
        with self._writing, self._file:
            self._end_member()

    def _end_member(self) -> None:
        self._append(self._member.flush())
        self._member = _new_member()

    def _append(self, data: bytes) -> None:
        self._file.write(data)
        self._file.flush()


def seal(path: Path) -> None:
    """Makes the file that a killed process left a whole one, and deletes the parts beside it.

    A line that is half-written is dropped.
    """
    with _replacing(path) as file:
        file.writelines(read_lines(path, cut_short=True))
    for part in path.parent.glob(PARTS):
        part.unlink()


def read_lines(path: Path, cut_short: bool = False) -> Iterator[bytes]:
    """The lines of a file; of a file that is cut short the whole ones before the cut.

    Raises:
        ValueError: A line is too long: a few bytes may unpack to more than memory holds.
    """
    with _opened(path) as file, suppress(*_CUT if cut_short else ()):
        while line := file.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE:
                raise ValueError(f"a line of more than {LONGEST_LINE:,} bytes")
            if line.endswith(b"\n") or not cut_short:
                yield line


def read_iteration(folder: Path) -> Iterator[Attempt]:
    """The attempts in an iteration's folder, sorted; where there are several files, each may be cut short.

    Raises:
        ValueError, LookupError, TypeError, OSError, EOFError, RecursionError: A file is damaged.
    """
    parts, whole = sorted(folder.glob(PARTS)), folder / FILE
    best: dict[tuple[Any, ...], tuple[tuple[bool, str], int]] = {}
    size = 0
    with tempfile.TemporaryFile() as lines:  # only the offsets of the lines are kept in memory
        for source in [*([whole] if whole.exists() else []), *parts]:
            term = "~" if source == whole else source.name  # after all digits
            for line in read_lines(source, cut_short=bool(parts)):
                size += len(line)
                if size > LARGEST:
                    raise ValueError(f"more than {LARGEST:,} bytes")
                attempt = json.loads(line)
                sample = attempt["task"], attempt["temperature"], attempt["sample"]
                rank = attempt["score"] is not None, term
                if sample not in best or rank >= best[sample][0]:
                    best[sample] = rank, lines.tell()
                    lines.write(line)
        for sample in sorted(best):
            lines.seek(best[sample][1])
            yield Attempt.from_dict(json.loads(lines.readline()))


def read_folder(folder: Path, kinds: Iterable[str] = FOLDERS) -> Iterator[tuple[str, Attempt]]:
    """The attempts in a run's downloaded artifacts, each with the name of its subfolder, such as `03_HM`.

    Raises:
        UsageError: A file of attempts is damaged.
    """
    for own in sorted(own for kind in kinds for own in folder.glob(f"{kind}/*/")):
        try:
            for attempt in read_iteration(own):
                yield own.name, attempt
        except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, RecursionError) as error:
            where = own.relative_to(folder) / FILE
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


def _opened(path: Path) -> IO[bytes]:
    """The lines of a compressed file; a server that keeps artifacts on S3 may hand it out decompressed."""
    with path.open("rb") as file:
        is_compressed = file.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], gzip.open(path, "rb")) if is_compressed else path.open("rb")


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new file of one gzip member; see `pipeline.base.files.replacing`."""
    with replacing(path) as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
        yield cast(IO[bytes], packed)


def _new_member() -> Any:
    return zlib.compressobj(wbits=zlib.MAX_WBITS | 16)  # with gzip's header and end


def _line(attempt: Attempt) -> bytes:
    return (redacted(json.dumps(attempt.to_dict())) + "\n").encode("ascii")


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
