"""Verdicts kept on disk between runs.

- A verdict is found again only for the same task, the same program, and the very code that reached it.
- Any number of runs may share a folder, at once.
- What depends on the machine, such as a time limit, is not kept.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import sqlite3
import threading
import warnings
from contextlib import AbstractContextManager
from pathlib import Path

import torch
from pydantic import TypeAdapter, ValidationError

import step_runtime
from pipeline.base.errors import UsageError
from pipeline.verification.worker import LOST_BEFORE
from step_runtime.verification.verify import Verdict

_TRANSIENT = frozenset({"time-limit", "memory-limit", "crashed", LOST_BEFORE})
_VERDICT: TypeAdapter[Verdict] = TypeAdapter(Verdict)
_TABLE = "CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, text TEXT, verdict TEXT) WITHOUT ROWID"


class VerdictStore(AbstractContextManager["VerdictStore"]):
    """A folder of verdicts; safe to use from several threads.

    Should it fail while it is in use (a full disk, a damaged file), it warns once and is as if it were empty.

    Args:
        folder: where they lie, a database a version of the verifier; made if there is none.

    Raises:
        UsageError: it can't be used.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / f"verdicts-{verifier_version()}.db"
        self._lock = threading.Lock()
        self._failed = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
            # Readers and writers don't wait for each other; a crash of the machine may cost the last verdicts.
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = OFF")
            self._database.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            raise UsageError(
                f"verdicts can't be kept in {path}: {error}; move it away, or name another folder"
            ) from None

    def get(self, content: str, key: str) -> tuple[str, Verdict] | None:
        """The text first judged under a program's key, for a task's YAML, and its verdict."""
        found = self._execute("SELECT text, verdict FROM verdicts WHERE key = ?", [_digest(content, key)])
        try:
            return (found[0][0], _VERDICT.validate_json(found[0][1])) if found else None
        except ValidationError as error:
            self._fail(error)
            return None

    def put(self, content: str, key: str, text: str, verdict: Verdict) -> None:
        """Keeps a verdict, unless there is one."""
        if _TRANSIENT.isdisjoint(diagnostic.code for diagnostic in verdict.diagnostics):
            row = [_digest(content, key), text, _VERDICT.dump_json(verdict).decode()]
            self._execute("INSERT OR IGNORE INTO verdicts VALUES (?, ?, ?)", row)

    def close(self) -> None:
        """Ends the use of the folder."""
        self._database.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _execute(self, statement: str, values: list[str]) -> list[tuple[str, str]]:
        with self._lock:
            if not self._failed:
                try:
                    return self._database.execute(statement, values).fetchall()
                except sqlite3.Error as error:
                    self._fail(error)
        return []

    def _fail(self, error: Exception) -> None:
        self._failed = True
        warnings.warn(f"the kept verdicts can't be used any more, and all is verified: {error}", stacklevel=2)


@functools.cache
def verifier_version() -> str:
    """A digest of what verdicts depend on beside task and program: the language's code, Python and torch."""
    digest = hashlib.sha256(f"{platform.python_version()} {torch.__version__} {platform.machine()}".encode())
    root = Path(step_runtime.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _digest(content: str, key: str) -> str:
    return hashlib.sha256(f"{len(content)} {content}{key}".encode("utf-8", "surrogatepass")).hexdigest()
