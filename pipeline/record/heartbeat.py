"""A thread that serves a run while it is written: the heartbeat, and uploads of new attempts.

Another machine can take over the run with the attempts of a minute ago: they are uploaded in numbered parts while an
iteration runs, beside the `attempts.jsonl.gz` that replaces them at its end. A part's name has the owner's term, so
that two owners never overwrite each other's.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from pipeline.base.errors import RunLost
from pipeline.base.text import first_line
from pipeline.record import ownership, store
from pipeline.record.artifacts import delete
from pipeline.record.attempts import PARTS, AttemptWriter

if TYPE_CHECKING:
    from mlflow import MlflowClient

logger = logging.getLogger(__name__)

PART_SECONDS = 60.0
PART_ATTEMPTS = 500
"""A part is uploaded after so many seconds, or so many attempts, whichever comes first."""
LOOK_SECONDS = 1.0
"""Seconds between two looks at what is due."""


class Heartbeat:
    """The thread, as a context manager; its client does not retry.

    A store that is away is tried again later: the run's own thread reports it when it needs the store.
    """

    def __init__(
        self, client: MlflowClient, claim: ownership.Claim, folder: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.run_id, self.folder = claim.run_id, folder
        self._client, self._claim, self._clock = client, claim, clock
        self._beaten = self._uploaded = clock()
        self._lost: RunLost | None = None
        self._warned = False
        self._uploading = threading.Lock()
        self._current: tuple[AttemptWriter, str] | None = None
        self._parts = 0
        self._places: set[str] = set()
        self._sent: dict[Path, int] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"heartbeat {claim.run_id}", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._stopped.set()
        self._thread.join()

    def require_owned(self) -> None:
        """Raises `RunLost` if the thread has found that somebody else has taken over the run."""
        if self._lost:
            raise self._lost

    def check(self) -> None:
        """Raises `RunLost` if the store says so."""
        self.require_owned()
        self._claim.check()

    def start_attempts(self, writer: AttemptWriter, place: str) -> None:
        """An iteration starts, whose attempts are uploaded to a folder of the artifacts."""
        self._current, self._uploaded = (writer, place), self._clock()

    def end_attempts(self) -> None:
        """The iteration ends; no part of it is uploaded from here on."""
        with self._uploading:
            self._current = None

    def delete_parts(self, place: str) -> None:
        """Deletes the parts in a folder of the artifacts, all of which are in the whole file beside them."""
        if place not in self._places and self._claim.term == 1:
            return
        with suppress(*store.faults()):  # a reader merges what stays
            names = [item.path for item in self._client.list_artifacts(self.run_id, place)]
            delete(self._client, self.run_id, [name for name in names if Path(name).match(PARTS)])

    def tick(self) -> None:
        """Does the work that is due."""
        now = self._clock()
        try:
            if now - self._beaten >= ownership.BEAT_SECONDS:
                self._beaten = now
                self._claim.beat(self._client)
            current = self._current
            many = current is not None and current[0].unsent >= PART_ATTEMPTS
            if many or now - self._uploaded >= PART_SECONDS:
                self._uploaded = now
                self._upload()
        except RunLost as error:
            self._lost = error
        except store.faults() as error:
            if not self._warned:
                logger.warning("the store of run %s does not answer: %s", self.run_id[:8], first_line(error))
            self._warned = True

    def _run(self) -> None:
        while not self._lost and not self._stopped.wait(LOOK_SECONDS):
            self.tick()

    def _upload(self) -> None:
        """Uploads the iteration's new attempts as a part, and the files of the run that have changed."""
        with self._uploading:
            self._claim.check(self._client)
            if self._current:
                writer, place = self._current
                with writer.part(self._claim.part_name(self._parts + 1)) as path:
                    if path:
                        self._client.log_artifact(self.run_id, str(path), place)
                        self._parts += 1
                        self._places.add(place)
            for path in sorted(self.folder.glob("*.json")):
                changed = path.stat().st_mtime_ns
                if self._sent.get(path) != changed:
                    self._client.log_artifact(self.run_id, str(path))
                    self._sent[path] = changed
