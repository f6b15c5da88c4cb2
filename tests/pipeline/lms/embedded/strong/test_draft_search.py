"""What is read changes what is proposed, by kinds and never by names."""

from __future__ import annotations

from tests.support.paths import PROJECT
from tests.support.renamed_tasks import REDUCED, SCANNED, demo, scans, taught

ROOT = PROJECT


def test_demonstrations_make_what_they_show_more_frequent() -> None:
    """After programs that scan, drafts scan more often than after programs that reduce and repeat."""
    assert scans(taught((), demo(SCANNED, 5))) > scans(taught((), ())) > scans(taught((), demo(REDUCED, 5)))
