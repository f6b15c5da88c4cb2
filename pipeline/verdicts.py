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
from pathlib import Path

import torch
from pydantic import TypeAdapter

import step_runtime
from step_runtime.verify import Verdict

_TRANSIENT = frozenset({"time-limit", "memory-limit", "crashed"})
_VERDICT: TypeAdapter[Verdict] = TypeAdapter(Verdict)
_TABLE = "CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, text TEXT, verdict TEXT) WITHOUT ROWID"


class VerdictStore:
    """A folder of verdicts; safe to use from several threads.

    Args:
        folder: where they lie, a database a version of the verifier; made if there is none.

    Raises:
        OSError, sqlite3.Error: it can't be written.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._database = sqlite3.connect(
            folder / f"verdicts-{verifier_version()}.db", timeout=30, isolation_level=None, check_same_thread=False
        )
        # Readers and writers don't wait for each other; a crash of the machine may cost the last verdicts.
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute(_TABLE)

    def get(self, content: str, key: str) -> tuple[str, Verdict] | None:
        """The text first judged under a program's key, for a task's YAML, and its verdict."""
        with self._lock:
            query = "SELECT text, verdict FROM verdicts WHERE key = ?"
            row = self._database.execute(query, [_digest(content, key)]).fetchone()
        return None if row is None else (row[0], _VERDICT.validate_json(row[1]))

    def put(self, content: str, key: str, text: str, verdict: Verdict) -> None:
        """Keeps a verdict, unless there is one."""
        if _TRANSIENT.isdisjoint(diagnostic.code for diagnostic in verdict.diagnostics):
            row = [_digest(content, key), text, _VERDICT.dump_json(verdict).decode()]
            with self._lock:
                self._database.execute("INSERT OR IGNORE INTO verdicts VALUES (?, ?, ?)", row)

    def close(self) -> None:
        """Ends the use of the folder."""
        self._database.close()


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
