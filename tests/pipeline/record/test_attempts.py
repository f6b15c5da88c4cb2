"""The files of attempts hold these.

- Whatever was written is read back; a resumed iteration's file begins with what is on record.
- A half-written line is dropped, and of two attempts at one sample the later one stays.
- A damaged file is reported in one line that names it.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from optimizers import Attempt
from pipeline.base.errors import UsageError
from pipeline.record.attempts import COMPRESSED, AttemptWriter, compress, read_attempts, read_folder
from pipeline.record.store import open_store


def attempt(sample: int, iteration: int = 0, passed: bool = False) -> Attempt:
    return Attempt(iteration, 0, "a", 0.7, sample, seed=sample, text="wrong", score=0.0, passed=passed)


def test_what_is_written_is_read_back_in_the_given_order(tmp_path: Path) -> None:
    """The attempts on record come first, and a later attempt at one of their samples replaces it."""
    recorded, later = [attempt(0), attempt(1)], [attempt(3), attempt(2), attempt(1, passed=True)]
    for place in ("iterations/01_None", "validation/H"):
        writer = AttemptWriter(tmp_path / place, recorded)
        for each in later:
            writer.write(each)
        path = writer.close(lambda found: int(found["sample"]))
        assert [file.name for file in path.parent.iterdir()] == [COMPRESSED]
    expected = [attempt(0), attempt(1, passed=True), attempt(2), attempt(3)]
    assert list(read_folder(tmp_path)) == [(place, each) for place in ("01_None", "H") for each in expected]
    assert list(read_folder(tmp_path, ["validation"])) == [("H", each) for each in expected]


def test_a_line_that_was_half_written_is_dropped_and_the_later_attempt_at_a_sample_stays(tmp_path: Path) -> None:
    """What a killed process leaves behind."""
    lines = [{"task": 0, "temperature": 1.0, "sample": sample, "seed": n} for n, sample in enumerate((0, 1, 0))]
    path = tmp_path / "attempts.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '{"task": 1, "temp')

    read = gzip.decompress(compress(path).read_bytes()).decode().splitlines()
    assert [json.loads(line)["seed"] for line in read] == [2, 1]


DAMAGED = {"no gzip": b"no gzip", "no attempt": gzip.compress(b"{}\n"), "half a line": gzip.compress(b"{")}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_reported_in_one_line(content: bytes, store_folder: Path, tmp_path: Path) -> None:
    """With the run and the file."""
    client, experiment = open_store()
    run_id = client.create_run(experiment).info.run_id
    (folder := tmp_path / "run" / "iterations" / "01_None").mkdir(parents=True)
    (folder / COMPRESSED).write_bytes(content)
    client.log_artifacts(run_id, str(tmp_path / "run"))
    with pytest.raises(UsageError) as caught:
        read_attempts(client, run_id)
    where = f"run {run_id[:8]}: iterations/01_None/attempts.jsonl.gz: cannot read the attempts: "
    assert str(caught.value).startswith(where) and "\n" not in str(caught.value)
