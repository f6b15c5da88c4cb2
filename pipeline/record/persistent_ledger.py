"""What one of DSPy's optimizers spends before its program is sampled, in a file that outlives the process."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from optimizers import TokenCount
from optimizers.ledger import Ledger


class KeptLedger(Ledger):
    """A ledger whose counts, per predictor, are in a JSON file after every entry.

    Args:
        path: of the file; made with the first entry.
        counts: what earlier processes booked.
    """

    def __init__(self, path: Path, counts: Mapping[str, TokenCount]) -> None:
        super().__init__()
        self._path, self._writing = path, threading.Lock()
        for name, count in counts.items():
            super().add(name, count)

    def add(self, name: str, count: TokenCount) -> None:
        """Books `count` on predictor `name`, and writes the file anew."""
        super().add(name, count)
        # A full disk is told by whoever writes next: the optimizer, in whose threads this is, would pass it over.
        with self._writing, suppress(OSError):
            partial = self._path.with_suffix(".partial")
            partial.write_text(json.dumps({key: each.to_dict() for key, each in self.counts.items()}, indent=1))
            partial.replace(self._path)
