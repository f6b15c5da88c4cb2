"""Who writes a run's record: its owner, the owner's heartbeat, and the takeover of a run whose owner has died.

The run's tag `owner` describes the process that writes it; the tag `heartbeat` changes every `BEAT_SECONDS` while that
process lives, and says `released` when it has ended in order.

- Owners have terms, counted from 1. The process that creates a run owns term 1; any other writes the param `owner.N`
  first. MLflow accepts one value of a param only, by the primary key of its table: of processes that take over
  at the same time, one gets term N, and the others are refused. The owner of the highest term owns the run.
- Clocks of machines are not compared. An owner is alive if its heartbeat changes while somebody watches, and
  taken for dead if it does not for `STALE_SECONDS` of the watcher's own clock. A process of this machine is looked
  up instead, so that no time passes.
- An owner that was suspended or cut off reads the term before it writes, and stops if it has lost the run. Only
  a request that was under way when it was suspended can arrive later; attempts then arrive under a name of their own.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import socket
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.base.errors import RecordError, RunLive, RunLost

TAG, HEARTBEAT, PARAM = "owner", "heartbeat", "owner."
BEAT_SECONDS = 10.0
STALE_SECONDS = 60.0
"""Seconds without a heartbeat after which an owner on another machine is taken for dead."""
LOOK_SECONDS = 1.0
"""Seconds between two looks at another machine's heartbeat."""
_RELEASED = "released"
_CONFLICT = "INVALID_PARAMETER_VALUE"
"""MLflow's code for a second value of a param."""
_LONGEST, _MOST_PROCESSES = 300, 2**31
"""Characters of an owner's fields, and a bound of process ids."""
_TERM = re.compile(rf"{re.escape(PARAM)}([0-9]{{1,9}})")
_live: set[str] = set()
"""The ids of the owners in this process."""


@cache
def machine() -> str:
    """A name of this machine, since its start, and of its process ids: containers have their own."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}:{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return f"{uuid.getnode():x}"


@dataclass(frozen=True)
class Owner:
    """A process that writes a run.

    Attributes:
        host: The machine's name, for people.
        process: The process's id.
        since: When it became the owner, by its own clock; for people.
        machine: What `machine` returns there.
        started: When the process started, as the system counts; None where it does not say.
    """

    id: str
    host: str
    process: int
    since: str
    machine: str
    started: str | None = None

    @classmethod
    def of_this_process(cls) -> Owner:
        """A new owner: this process."""
        since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return cls(uuid.uuid4().hex, socket.gethostname(), os.getpid(), since, machine(), _started(os.getpid()))

    @classmethod
    def read(cls, text: str) -> Owner:
        """The owner that `text` describes; a text of another form is the id of an unknown one.

        The text may be anybody's who can write to the store, so its fields are bounded, and printable.
        """
        try:
            found = cls(**json.loads(text))
        except (ValueError, TypeError, RecursionError):
            found = None
        if found is None or not found._is_plausible:
            return cls(text, "an unknown machine", 0, "an unknown time", "")
        return found

    @property
    def _is_plausible(self) -> bool:
        words = (self.id, self.host, self.since, self.machine, self.started or "x")
        known = type(self.process) is int and 0 < self.process < _MOST_PROCESSES
        return known and all(isinstance(word, str) and len(word) <= _LONGEST and word.isprintable() for word in words)

    @property
    def text(self) -> str:
        """The owner as JSON."""
        return json.dumps(asdict(self))

    @property
    def is_here(self) -> bool:
        """Whether it is a process of this machine, alive or dead."""
        return self.machine == machine()

    @property
    def is_alive(self) -> bool:
        """Whether a process of this machine is alive, and still works on the run."""
        if self.process == os.getpid():
            return self.id in _live
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return _started(self.process) == self.started

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}, since {self.since}"


@dataclass(frozen=True)
class Ownership:
    """The store's record of a run's owner; a run that was recorded without owners has term 0."""

    term: int
    owner: Owner | None
    heartbeat: str

    @classmethod
    def read(cls, client: Any, run_id: str) -> Ownership:
        """The ownership of a run in the store that `client` is a client of."""
        data = client.get_run(run_id).data
        named = ((_TERM.fullmatch(name), value) for name, value in data.params.items())
        terms = {int(found.group(1)): value for found, value in named if found}
        term = max(terms, default=int(TAG in data.tags))
        text = terms.get(term) or data.tags.get(TAG)
        return cls(term, Owner.read(text) if text else None, data.tags.get(HEARTBEAT, ""))

    @property
    def is_free(self) -> bool:
        """Whether the run has no owner, or one that has released it."""
        return self.owner is None or self.heartbeat == f"{self.owner.id} {_RELEASED}"


class Claim:
    """This process's ownership of a run, in a term."""

    def __init__(self, client: Any, run_id: str, owner: Owner, term: int = 1) -> None:
        self._client, self.run_id, self.owner, self.term = client, run_id, owner, term
        self._beats, self._writing = itertools.count(1), threading.Lock()
        _live.add(owner.id)

    def part_name(self, number: int) -> str:
        """A name for the owner's n-th part that no other owner uses; names sort by term, then by number."""
        return f"{self.term:04d}-{number:05d}-{self.owner.id[:8]}"

    def check(self, client: Any = None) -> None:
        """Makes sure, with the client given or the claim's own, that nobody else has taken over the run.

        Raises:
            RunLost: Somebody has.
        """
        found = Ownership.read(client or self._client, self.run_id)
        if found.owner is not None and (found.term, found.owner.id) != (self.term, self.owner.id):
            raise RunLost(f"run {self.run_id[:8]} was taken over by {found.owner}; this process writes no more of it")

    def beat(self, client: Any = None) -> None:
        """Changes the heartbeat; see `check` for the argument and the error."""
        with self._writing:
            if self.owner.id in _live:
                self.check(client)
                self._write(client or self._client, str(next(self._beats)))

    def release(self) -> None:
        """Ends the ownership: anybody may resume the run at once."""
        with self._writing:
            self.forget()
            self._write(self._client, _RELEASED)

    def forget(self) -> None:
        """Ends the ownership within this process only, where the store is away or the run is lost."""
        _live.discard(self.owner.id)

    def _write(self, client: Any, beat: str) -> None:
        from mlflow.entities import RunTag

        tags = [RunTag(TAG, self.owner.text), RunTag(HEARTBEAT, f"{self.owner.id} {beat}")]
        client.log_batch(self.run_id, tags=tags)


@contextmanager
def held(claim: Claim) -> Iterator[None]:
    """Releases the run at the end of the context, however it ends, unless the run is lost or the store away."""
    try:
        yield
        claim.release()
    except RunLost:
        raise
    except BaseException:
        with suppress(RecordError):
            claim.release()
        raise
    finally:
        claim.forget()


def first_tags(owner: Owner) -> dict[str, str]:
    """The tags with which a run is created."""
    return {TAG: owner.text, HEARTBEAT: f"{owner.id} 0"}


def take_over(
    client: Any,
    run_id: str,
    owner: Owner,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Claim:
    """Takes over a run whose owner has released it or died.

    It returns at once where the owner was a process of this machine; the heartbeat of one elsewhere is watched for
    `STALE_SECONDS`.

    Raises:
        RunLive: The owner is alive, or somebody else takes over at the same time.
    """
    found = Ownership.read(client, run_id)
    if not found.is_free:
        _require_dead(client, run_id, found, clock, sleep)
    return claim(client, run_id, owner, found.term + 1)


def claim(client: Any, run_id: str, owner: Owner, term: int) -> Claim:
    """Makes this process the owner of a run in a term.

    Raises:
        RunLive: Another process has the term.
    """
    try:
        client.log_param(run_id, f"{PARAM}{term}", owner.text)
    except Exception as error:
        if _CONFLICT not in (getattr(each, "error_code", None) for each in (error, error.__cause__)):
            raise
        other = Ownership.read(client, run_id).owner
        raise RunLive(f"run {run_id[:8]} is still running: {other} has just taken it over") from None
    held = Claim(client, run_id, owner, term)
    held.beat()
    return held


def _require_dead(
    client: Any, run_id: str, found: Ownership, clock: Callable[[], float], sleep: Callable[[float], None]
) -> None:
    """Returns when the owner of a run is dead, or releases it; raises `RunLive` if it is alive."""
    owner = found.owner
    refusal = RunLive(f"run {run_id[:8]} is still running: {owner}; wait for it to finish or stop it")
    if owner is not None and owner.is_here:
        if owner.is_alive:
            raise refusal
        return
    seconds = f"{STALE_SECONDS:g} s"
    warnings.warn(f"run {run_id[:8]}: waiting up to {seconds} for a heartbeat of {owner}", stacklevel=2)
    end = clock() + STALE_SECONDS
    while clock() < end:
        sleep(LOOK_SECONDS)
        now = Ownership.read(client, run_id)
        if now.is_free:
            return
        if now != found:
            raise refusal


def _started(process: int) -> str | None:
    """When a process started, in ticks since the machine's start; None if the system does not say."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[19]
