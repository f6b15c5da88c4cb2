"""A ledger that outlives its process: the file has every count after every entry."""

from __future__ import annotations

import json
from pathlib import Path

from optimizers import TokenCount
from pipeline.record.persistent_ledger import PersistentLedger

EARLIER = {"solve": TokenCount(calls=2, prompt=7)}


def read(path: Path) -> dict[str, TokenCount]:
    return {name: TokenCount.from_dict(count) for name, count in json.loads(path.read_text()).items()}


def test_earlier_counts_are_kept_and_every_entry_is_written(tmp_path: Path) -> None:
    """Nothing is written before the first entry, and no partial file stays."""
    path = tmp_path / "overhead.json"
    ledger = PersistentLedger(path, EARLIER)
    assert not path.exists() and ledger.counts == EARLIER
    ledger.add("solve", TokenCount(calls=1, prompt=1))
    assert read(path) == {"solve": TokenCount(calls=3, prompt=8)}
    ledger.add("other", TokenCount(calls=1))
    assert read(path) == ledger.counts == {"solve": TokenCount(calls=3, prompt=8), "other": TokenCount(calls=1)}
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    """The counts are kept in memory."""
    ledger = PersistentLedger(tmp_path / "no" / "overhead.json", EARLIER)
    ledger.add("solve", TokenCount(calls=1))
    assert ledger.counts["solve"].calls == 3
