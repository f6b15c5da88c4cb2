"""Notes say what a call is doing, and when; outside a worker they are nothing."""

import pytest

from pipeline.verification import notes


def test_outside_a_worker_a_note_does_nothing() -> None:
    """The parent may call what workers call."""
    notes.note("here")
    assert notes.lost_at() == {}


def test_a_note_is_read_with_its_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was written, cut to its length; a cleared one is empty."""
    monkeypatch.setattr(notes, "_HERE", notes._Here())
    written: list[bytes] = []
    notes.become_worker(written.append)
    notes.note("global at M=5")
    notes.note("é" * 1000)
    notes.note("")
    text, when, used = notes.read(written[0].ljust(notes.NOTE_BYTES, b"\0"))
    assert text == "global at M=5"
    assert when > 0
    assert used > 0
    assert len(written[1]) < notes.NOTE_BYTES
    assert notes.read(written[1])[0].startswith("é" * 100)
    assert notes.read(written[2]) == ("", 0.0, 0.0)


def test_what_a_call_wrote_over_its_note_is_not_a_note() -> None:
    """The memory is the call's own."""
    assert notes.read(b"\xff" * notes.NOTE_BYTES) == ("", 0.0, 0.0)


def test_losses_are_known_to_later_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the parent sends them with a batch."""
    monkeypatch.setattr(notes, "_HERE", notes._Here())
    notes.learn({"global": "crashed"})
    assert notes.lost_at() == {"global": "crashed"}
