"""Verdicts kept on disk between runs.

- A verdict is found again only for the same task, the same program, and the very code that reached it.
- Any number of runs may share a folder at the same time.
- Only what this user wrote is believed: rows are named and signed with a key that no one else can read (HMAC).
- What depends on the machine, such as a time limit, is not kept.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import os
import platform
import secrets
import sqlite3
import threading
import warnings
from contextlib import AbstractContextManager
from pathlib import Path

import torch
from pydantic import TypeAdapter, ValidationError

import step_runtime
from pipeline.base.errors import UsageError
from pipeline.languages import registry
from pipeline.verification.worker import LOST_BEFORE
from step_runtime.verification.verify import Verdict

_TRANSIENT = frozenset({"time-limit", "memory-limit", "crashed", LOST_BEFORE})
_VERDICT: TypeAdapter[Verdict] = TypeAdapter(Verdict)
_TABLE = "verdicts (key TEXT PRIMARY KEY, verdict TEXT, mac TEXT) WITHOUT ROWID"
_KEY_BYTES = 32


class VerdictStore(AbstractContextManager["VerdictStore"]):
    """A folder of verdicts; safe to use from several threads.

    Should it fail while it is in use (a full disk, a damaged file), it warns once and behaves as if it were empty. A
    row that was not written with this user's key is ignored, with one warning.

    Args:
        folder: Where the databases are, one for each version of the verifier; created, for the user alone, if absent.
        language: Of the programs; None for the default.

    Raises:
        UsageError: The folder, or the user's key, cannot be used.
    """

    def __init__(self, folder: Path, language: str | None = None) -> None:
        version = verifier_version() if language is None else _version_of(language)
        path = folder / f"signed-verdicts-{version}.db"
        self._lock = threading.Lock()
        self._failed = self._warned = False
        self._key = user_key()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
            # Readers and writers don't wait for each other; a crash of the machine may cost the last verdicts.
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = OFF")
            self._database.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE}")
            if self._database.execute("SELECT sql FROM sqlite_master").fetchall() != [(f"CREATE TABLE {_TABLE}",)]:
                # A view or a computed column of somebody else's would run at each look-up.
                raise sqlite3.DatabaseError("it holds something else than verdicts")
        except (OSError, sqlite3.Error) as error:
            raise UsageError(
                f"verdicts can't be kept in {path}: {error}; move it away, or name another folder"
            ) from None

    def get(self, content: str, text: str) -> Verdict | None:
        """The verdict on a program's text, for a task's YAML."""
        name = self._mac("name", content, text)
        found = self._execute("SELECT verdict, mac FROM verdicts WHERE key = ?", [name])
        if not found:
            return None
        written, mac = map(str, found[0])
        if not hmac.compare_digest(mac.encode(), self._mac("row", name, written).encode()):
            self._warn_of_foreign_row()
            return None
        try:
            return _VERDICT.validate_json(written)
        except ValidationError as error:
            self._fail(error)
            return None

    def put(self, content: str, text: str, verdict: Verdict) -> None:
        """Keeps a verdict in place of an earlier one."""
        if not _TRANSIENT.isdisjoint(diagnostic.code for diagnostic in verdict.diagnostics):
            return
        try:
            written = _VERDICT.dump_json(verdict).decode()
        except ValueError:
            return  # lone surrogates, which JSON does not hold
        name = self._mac("name", content, text)
        self._execute(
            "INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?)", [name, written, self._mac("row", name, written)]
        )

    def close(self) -> None:
        """Ends the use of the folder."""
        self._database.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _mac(self, *parts: str) -> str:
        """The signature of texts in their order."""
        digest = hmac.new(self._key, digestmod=hashlib.sha256)
        for part in parts:
            data = part.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "big") + data)
        return digest.hexdigest()

    def _execute(self, statement: str, values: list[str]) -> list[tuple[object, ...]]:
        with self._lock:
            if not self._failed:
                try:
                    return self._database.execute(statement, values).fetchall()
                except (sqlite3.Error, UnicodeError) as error:
                    self._fail(error)
        return []

    def _warn_of_foreign_row(self) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn("a kept verdict was changed by someone else; it is ignored, and verified again", stacklevel=3)

    def _fail(self, error: Exception) -> None:
        self._failed = True
        warnings.warn(f"the kept verdicts can't be used any more; everything is verified: {error}", stacklevel=2)


def _version_of(language: str) -> str:
    """A digest of a language's name and version, and of the verifier's, whose workers it uses."""
    parts = (language, registry.version(language), verifier_version())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@functools.cache
def verifier_version() -> str:
    """A digest of the verifier, on which verdicts depend: the language's code, Python and torch."""
    digest = hashlib.sha256(f"{platform.python_version()} {torch.__version__} {platform.machine()}".encode())
    root = Path(step_runtime.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def user_key() -> bytes:
    """The key by which this user's verdicts are known, made on first use.

    Its file is `adaptive-step/verdicts.key` in the user's state folder (`$XDG_STATE_HOME`, else `~/.local/state`), for
    the user alone to read.

    Raises:
        UsageError: It cannot be read or made, or others may read it.
    """
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(state) / "adaptive-step" / "verdicts.key"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _make_key(path)
        if path.stat().st_mode & 0o077 or path.stat().st_uid != os.getuid():
            raise UsageError(f"{path}: other users may read this key; remove it, and a new key is made")
        key = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot use the key of kept verdicts: {error.strerror}; set XDG_STATE_HOME") from None
    if len(key) != _KEY_BYTES:
        raise UsageError(f"{path}: expected a key of {_KEY_BYTES} bytes; remove the file, and a new key is made")
    return key


def _make_key(path: Path) -> None:
    """Writes a key, whole or not at all; one that another run makes meanwhile stays."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(file, secrets.token_bytes(_KEY_BYTES))
        os.close(file)
        with contextlib.suppress(FileExistsError):
            os.link(partial, path)
    finally:
        partial.unlink()
