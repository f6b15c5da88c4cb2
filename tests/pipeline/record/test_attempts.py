"""The files of attempts hold these.

- Whatever was written is read back, sorted; what a resumed run has only read is not written again.
- A killed process loses nothing that it has written; a half-written line is dropped.
- Of several attempts at one sample the later one stays, or the one that has an answer.
- A damaged file is reported in one line that names it.
"""

import gzip
import json
import shutil
from pathlib import Path

import pytest

from optimizers import Attempt
from pipeline.base.errors import UsageError
from pipeline.record.attempts import FILE, GROWING, AttemptWriter, pack, read_attempts, read_folder, read_iteration
from pipeline.record.store import open_store


def attempt(sample: int, passed: bool = False, score: float | None = 0.0, temperature: float = 0.7) -> Attempt:
    return Attempt(0, 0, "a", temperature, sample, seed=sample, text="wrong", score=score, passed=passed)


def written(folder: Path, *attempts: Attempt) -> None:
    writer = AttemptWriter(folder)
    for each in attempts:
        writer.write(each)
    writer.close()


def test_what_is_written_is_read_back_sorted_in_one_file(tmp_path: Path) -> None:
    for place in ("iterations/01_None", "validation/H"):
        written(tmp_path / place, attempt(0), attempt(1, score=None))
        written(tmp_path / place, attempt(3), attempt(0), attempt(2), attempt(1, passed=True), attempt(9, True, 1, 0))
        assert [file.name for file in (tmp_path / place).iterdir()] == [FILE]
        assert gzip.decompress((tmp_path / place / FILE).read_bytes()).count(b"\n") == 6, "the first is not repeated"
    expected = [attempt(9, True, 1, 0), attempt(0), attempt(1, passed=True), attempt(2), attempt(3)]
    assert list(read_folder(tmp_path)) == [(place, each) for place in ("01_None", "H") for each in expected]
    assert list(read_folder(tmp_path, ["validation"])) == [("H", each) for each in expected]


@pytest.mark.parametrize("cut", range(0, 120, 7))
def test_what_a_killed_process_left_is_whole_up_to_the_last_line(cut: int, tmp_path: Path) -> None:
    """Beside what was on record before; read as it is, and when its lines have joined that."""
    written(tmp_path, attempt(0))
    written(tmp_path / "other", *map(attempt, range(1, 6)))
    left = gzip.decompress((tmp_path / "other" / FILE).read_bytes())
    shutil.rmtree(tmp_path / "other")
    (tmp_path / GROWING).write_bytes(left[: len(left) - cut])
    found = [each.sample for each in read_iteration(tmp_path)]
    assert found == list(range(len(found))) and len(found) >= 5
    pack(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    assert [each.sample for each in read_iteration(tmp_path)] == found


def test_an_attempt_without_an_answer_replaces_none_with_one(tmp_path: Path) -> None:
    """In whichever file it is; a resumed run asks again, and both are on record until the iteration ends."""
    written(tmp_path, attempt(0, score=None), attempt(1), attempt(2, score=None))
    written(tmp_path, attempt(0), attempt(1, score=None), attempt(2, score=None, passed=True))
    assert list(read_iteration(tmp_path)) == [attempt(0), attempt(1), attempt(2, score=None, passed=True)]


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
