"""What is done for a run in the background holds these.

- The heartbeat changes on time; a store that is away for a while changes nothing.
- Attempts are uploaded in parts, after a minute or 500 of them; every attempt is in one part, and read once.
- Nothing more is uploaded once the run is lost.
"""

from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from optimizers import Attempt
from pipeline.base.errors import RunLost
from pipeline.record import heartbeat, ownership, store
from pipeline.record.attempts import FILE, AttemptWriter, read_attempts
from pipeline.record.heartbeat import Heartbeat
from pipeline.record.ownership import Claim, Owner, Ownership

PLACE = "iterations/01_None"


def attempt(sample: int, score: float | None = 0.0) -> Attempt:
    return Attempt(0, 0, "a", 0.7, sample, sample, text="x", score=score)


class Run:
    """A run in the store, and what is done for it by a clock of the test."""

    def __init__(self, client: MlflowClient, claim: Claim, folder: Path) -> None:
        self.client, self.claim, self.now = client, claim, 0.0
        self.heart = Heartbeat(client, self.claim, folder, lambda: self.now)

    def write(self, *attempts: Attempt, recorded: tuple[Attempt, ...] = ()) -> AttemptWriter:
        writer = AttemptWriter(self.heart.folder / PLACE, recorded)
        self.heart.start_attempts(writer, PLACE)
        for each in attempts:
            writer.write(each)
        return writer

    def pass_seconds(self, seconds: float) -> None:
        self.now += seconds
        self.heart.tick()

    @property
    def uploaded(self) -> list[str]:
        return [Path(item.path).name for item in self.client.list_artifacts(self.claim.run_id, PLACE)]


@pytest.fixture
def run(store_folder: Path, tmp_path: Path) -> Run:
    client, experiment = store.open_store()
    owner = Owner.of_this_process()
    run_id = client.create_run(experiment, tags=ownership.first_tags(owner)).info.run_id
    return Run(client, Claim(client, run_id, owner), tmp_path / "first")


def test_the_heart_beats_on_time(run: Run) -> None:
    run.claim.beat()
    before = Ownership.read(run.client, run.claim.run_id).heartbeat
    run.pass_seconds(ownership.BEAT_SECONDS - 1)
    assert Ownership.read(run.client, run.claim.run_id).heartbeat == before
    run.pass_seconds(1)
    assert Ownership.read(run.client, run.claim.run_id).heartbeat != before


def test_attempts_are_uploaded_after_a_minute_or_many_of_them(run: Run) -> None:
    """Each in one part; a part is uploaded only if there is something new."""
    writer = run.write(attempt(0), attempt(1))
    run.pass_seconds(heartbeat.PART_SECONDS - 1)
    assert run.uploaded == []
    run.pass_seconds(1)
    (first,) = run.uploaded
    run.pass_seconds(heartbeat.PART_SECONDS)
    assert run.uploaded == [first]
    for number in range(2, 2 + heartbeat.PART_ATTEMPTS):
        writer.write(attempt(number))
    run.pass_seconds(1)
    assert len(run.uploaded) == 2
    journal = read_attempts(run.client, run.claim.run_id)
    writer.close()
    assert [each.sample for each in journal] == list(range(2 + heartbeat.PART_ATTEMPTS))


def test_what_was_recorded_is_not_uploaded_again(run: Run, tmp_path: Path) -> None:
    """By the next owner, whose parts have names of their own, and replace what had no answer."""
    writer = run.write(attempt(0), attempt(1, None))
    run.pass_seconds(heartbeat.PART_SECONDS)
    writer.close()
    journal = read_attempts(run.client, run.claim.run_id)
    claim = ownership.claim(run.client, run.claim.run_id, Owner.of_this_process(), 2)
    second = Run(run.client, claim, tmp_path / "second")
    writer = second.write(attempt(0), attempt(1), attempt(2), recorded=tuple(journal))
    assert writer.unsent == 2
    second.pass_seconds(heartbeat.PART_SECONDS)
    assert [name[:20] for name in second.uploaded] == ["attempts.part-0001-0", "attempts.part-0002-0"]
    assert list(read_attempts(run.client, run.claim.run_id)) == [attempt(0), attempt(1), attempt(2)]
    writer.close()
    run.client.log_artifact(run.claim.run_id, str(writer.path), PLACE)
    assert list(read_attempts(run.client, run.claim.run_id)) == [attempt(0), attempt(1), attempt(2)]
    second.heart.delete_parts(PLACE)
    assert second.uploaded == [FILE]
    assert list(read_attempts(run.client, run.claim.run_id)) == [attempt(0), attempt(1), attempt(2)]


def test_files_of_the_run_are_uploaded_when_they_change(run: Run) -> None:
    run.heart.folder.mkdir()
    (run.heart.folder / "overhead.json").write_text("{}")
    run.pass_seconds(heartbeat.PART_SECONDS)
    assert [item.path for item in run.client.list_artifacts(run.claim.run_id)] == ["overhead.json"]


def test_a_store_that_is_away_is_tried_again(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One line says so; the next part has what the failed one had."""
    writer, original = run.write(attempt(0)), MlflowClient.log_artifact

    def fail(*_: object) -> None:
        raise MlflowException("no space left")

    monkeypatch.setattr(MlflowClient, "log_artifact", fail)
    run.pass_seconds(heartbeat.PART_SECONDS)
    run.pass_seconds(heartbeat.PART_SECONDS)
    assert [record.message for record in caplog.records] == [
        f"the store of run {run.claim.run_id[:8]} does not answer: no space left"
    ]
    monkeypatch.setattr(MlflowClient, "log_artifact", original)
    writer.write(attempt(1))
    run.pass_seconds(heartbeat.PART_SECONDS)
    assert list(read_attempts(run.client, run.claim.run_id)) == [attempt(0), attempt(1)]
    assert len(run.uploaded) == 1
    writer.close()


def test_nothing_is_uploaded_once_the_run_is_lost(run: Run) -> None:
    """As after a suspension, when a part and a heartbeat are due at once."""
    writer = run.write(attempt(0))
    taken = ownership.claim(run.client, run.claim.run_id, Owner.of_this_process(), 2)
    before = Ownership.read(run.client, taken.run_id)
    run.heart.require_owned()
    run.pass_seconds(1000)
    assert run.uploaded == []
    assert Ownership.read(run.client, taken.run_id) == before
    for act in (run.heart.require_owned, run.heart.check):
        with pytest.raises(RunLost, match="was taken over by"):
            act()
    writer.close()
