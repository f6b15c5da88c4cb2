"""The files of attempts hold these.

- Whatever was written is read back, sorted; a resumed iteration's file begins with what is on record.
- A killed process loses nothing that it has written; a half-written line is dropped.
- Of several attempts at one sample the later one stays, or the one that has an answer.
- A damaged file is reported in one line that names it.
"""

import gzip
import json
from pathlib import Path

import pytest

from optimizers import Attempt
from pipeline.base.errors import UsageError
from pipeline.record.attempts import (
    FILE,
    AttemptWriter,
    read_attempts,
    read_folder,
    read_iteration,
    seal,
)
from pipeline.record.store import open_store


def attempt(sample: int, passed: bool = False, score: float | None = 0.0, temperature: float = 0.7) -> Attempt:
    return Attempt(0, 0, "a", temperature, sample, seed=sample, text="wrong", score=score, passed=passed)


def test_what_is_written_is_read_back_sorted(tmp_path: Path) -> None:
    """The attempts on record come first, and a later attempt at one of their samples replaces it."""
    recorded, later = (
        [attempt(0), attempt(1)],
        [attempt(3), attempt(2), attempt(1, passed=True), attempt(9, True, 1, 0)],
    )
    for place in ("iterations/01_None", "validation/H"):
        writer = AttemptWriter(tmp_path / place, recorded)
        for each in [*later, recorded[0]]:
            writer.write(each)
        writer.close()
        assert [file.name for file in writer.path.parent.iterdir()] == [FILE]
        assert gzip.decompress(writer.path.read_bytes()).count(b"\n") == 6
    expected = [attempt(9, True, 1, 0), attempt(0), attempt(1, passed=True), attempt(2), attempt(3)]
    assert list(read_folder(tmp_path)) == [(place, each) for place in ("01_None", "H") for each in expected]
    assert list(read_folder(tmp_path, ["validation"])) == [("H", each) for each in expected]


def test_parts_are_pieces_of_the_file(tmp_path: Path) -> None:
    """Each can be read alone; a part whose upload fails is in the next one; together they are the whole file."""
    writer, parts = AttemptWriter(tmp_path), list[bytes]()
    beginning = writer.path.read_bytes()

    def upload(name: str, *, fails: bool = False) -> None:
        with writer.part(name) as part:
            if fails:
                raise OSError("away")
            parts.append(part.read_bytes() if part else b"")

    writer.write(attempt(0))
    with pytest.raises(OSError, match="away"):
        upload("1-1", fails=True)
    for number in (1, 2):
        writer.write(attempt(number))
        upload(f"1-{number}")
    upload("1-3")
    writer.close()
    assert [gzip.decompress(part).count(b"\n") for part in parts] == [2, 1, 0]
    assert writer.path.read_bytes().startswith(beginning + b"".join(parts))


def left_by_a_killed_process(folder: Path, *attempts: Attempt) -> bytes:
    """What is on disk before the file is closed."""
    writer = AttemptWriter(folder, attempts[:1])
    for each in attempts[1:]:
        writer.write(each)
    content = writer.path.read_bytes()
    writer.close()
    return content


def test_what_a_killed_process_left_is_made_whole(tmp_path: Path) -> None:
    """Without a half-written line, and without parts."""
    attempts = [attempt(0), attempt(2), attempt(1, passed=True), attempt(2)]
    content = left_by_a_killed_process(tmp_path / "run", *attempts)
    for name, data in {FILE: content, "attempts.part-0001-1.jsonl.gz": b""}.items():
        (tmp_path / name).write_bytes(data)
    seal(tmp_path / FILE)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [FILE]
    assert gzip.decompress((tmp_path / FILE).read_bytes()).endswith(b"\n")
    assert list(read_iteration(tmp_path)) == [attempt(0), attempt(1, passed=True), attempt(2)]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_file_that_is_cut_short_anywhere_keeps_the_lines_before(cut: int, tmp_path: Path) -> None:
    content = left_by_a_killed_process(tmp_path / "run", *map(attempt, range(6)))
    (tmp_path / FILE).write_bytes(content[:-cut])
    seal(tmp_path / FILE)
    found = [each.sample for each in read_iteration(tmp_path)]
    assert found == list(range(len(found))) and len(found) >= 2


def test_an_attempt_without_an_answer_replaces_none_with_one(tmp_path: Path) -> None:
    """In whichever file it is; a resumed run asks again, and both are on record until the iteration ends."""
    whole = AttemptWriter(tmp_path)
    for each in (attempt(0, score=None), attempt(1), attempt(2, score=None)):
        whole.write(each)
    whole.close()
    later = AttemptWriter(tmp_path / "later")
    for each in (attempt(0), attempt(1, score=None), attempt(2, score=None, passed=True)):
        later.write(each)
    with later.part("0002-1") as part:
        assert part
        (tmp_path / part.name).write_bytes(part.read_bytes())
    later.close()
    assert list(read_iteration(tmp_path)) == [attempt(0), attempt(1), attempt(2, score=None)]


DAMAGED = {
    "no gzip": b"no gzip",
    "no attempt": gzip.compress(b"{}\n"),
    "half a line": gzip.compress(b"{"),
    "half a member": gzip.compress(json.dumps(attempt(0).to_dict()).encode() + b"\n")[:-9],
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_reported_in_one_line(content: bytes, store_folder: Path, tmp_path: Path) -> None:
    """With the run and the file."""
    client, experiment = open_store()
    run_id = client.create_run(experiment).info.run_id
    (folder := tmp_path / "run" / "iterations" / "01_None").mkdir(parents=True)
    (folder / FILE).write_bytes(content)
    client.log_artifacts(run_id, str(tmp_path / "run"))
    with pytest.raises(UsageError) as caught:
        read_attempts(client, run_id)
    where = f"run {run_id[:8]}: iterations/01_None/attempts.jsonl.gz: cannot read the attempts: "
    assert str(caught.value).startswith(where) and "\n" not in str(caught.value)
