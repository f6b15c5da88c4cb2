"""The tokens of one of DSPy's optimizers before its program is sampled, in a file that outlives the process."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from optimizers import TokenCount
from optimizers.ledger import Ledger


class PersistentLedger(Ledger):
    """A ledger that writes its counts, per predictor, to a JSON file after every entry.

    It starts from the counts of earlier processes.
    """

    def __init__(self, path: Path, counts: Mapping[str, TokenCount]) -> None:
        super().__init__()
        self._path, self._writing = path, threading.Lock()
        for name, count in counts.items():
            super().add(name, count)

    def add(self, name: str, count: TokenCount) -> None:
        """Adds `count` to predictor `name`, and rewrites the file."""
        super().add(name, count)
        # This runs in the optimizer's threads, which ignore errors; a full disk is reported by the next other write.
        with self._writing, suppress(OSError):
            partial = self._path.with_suffix(".partial")
            partial.write_text(json.dumps({key: each.to_dict() for key, each in self.counts.items()}, indent=1))
            partial.replace(self._path)
