"""The ownership of a run holds these.

- A process of this machine that has ended is dead at once, whatever else has its number now; a live one is alive.
- An owner elsewhere is alive if its heartbeat changes while it is watched, and dead if it does not for a minute of the
  watcher's clock; what the clocks of the machines show does not matter.
- Of several takeovers at the same time one succeeds.
- Who has lost a run finds it out before it writes.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from pipeline.base.errors import RecordError, RunLost, UsageError
from pipeline.record import ownership, store
from pipeline.record.ownership import Claim, Owner, Ownership

ELSEWHERE = replace(Owner.of_this_process(), machine="another", host="far")


@pytest.fixture
def client(store_folder: Path) -> MlflowClient:
    return store.open_store()[0]


def new_run(client: MlflowClient, owner: Owner) -> str:
    (experiment,) = (each for each in client.search_experiments() if each.name == store.EXPERIMENT)
    return str(client.create_run(experiment.experiment_id, tags=ownership.first_tags(owner)).info.run_id)


class Clock:
    """A clock that moves while somebody sleeps; then something may happen."""

    def __init__(self, happens: Callable[[], None] = lambda: None) -> None:
        self.now, self.happens = 0.0, happens

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.happens()


def take_over(client: MlflowClient, run_id: str, clock: Clock) -> Claim:
    return ownership.take_over(client, run_id, Owner.of_this_process(), lambda: clock.now, clock.sleep)


def test_an_owner_is_written_in_full_and_read_back() -> None:
    owner = Owner.of_this_process()
    assert Owner.read(owner.text) == owner
    assert (owner.process, owner.is_here) == (os.getpid(), True)
    assert Owner.read("junk").id == "junk"


def test_a_released_run_is_taken_over_at_once(client: MlflowClient) -> None:
    """As is one that was recorded before runs had owners."""
    first = Claim(client, new_run(client, ELSEWHERE), ELSEWHERE)
    first.release()
    assert Ownership.read(client, first.run_id).is_free
    clock = Clock()
    second = take_over(client, first.run_id, clock)
    assert (second.term, clock.now) == (2, 0.0)
    second.release()
    (experiment,) = (each for each in client.search_experiments() if each.name == store.EXPERIMENT)
    old = client.create_run(experiment.experiment_id).info.run_id
    assert take_over(client, old, clock).term == 1


def test_a_dead_process_of_this_machine_is_found_at_once(client: MlflowClient) -> None:
    """Its number is looked up, and the time at which the process of that number started."""
    died = subprocess.Popen([sys.executable, "--version"], stdout=subprocess.DEVNULL)
    died.wait()
    clock = Clock()
    for dead in (
        replace(Owner.of_this_process(), process=died.pid),
        replace(Owner.of_this_process(), process=os.getppid(), started="1"),
        replace(Owner.of_this_process(), id="of a run of this process that has ended"),
    ):
        assert not dead.is_alive
        take_over(client, new_run(client, dead), clock).release()
    assert clock.now == 0.0


def test_a_live_process_of_this_machine_is_refused_at_once(client: MlflowClient) -> None:
    """In one line, which names it."""
    owner = Owner.of_this_process()
    run_id = new_run(client, owner)
    held, clock = Claim(client, run_id, owner), Clock()
    with pytest.raises(UsageError, match=rf"^run {run_id[:8]} is still running: process {os.getpid()} on .*stop it$"):
        take_over(client, run_id, clock)
    assert clock.now == 0.0
    held.check()


def test_an_owner_elsewhere_is_refused_as_soon_as_its_heart_beats(client: MlflowClient) -> None:
    held = Claim(client, new_run(client, ELSEWHERE), ELSEWHERE)
    clock = Clock(lambda: held.beat() if clock.now >= 7 else None)
    with (
        pytest.warns(UserWarning, match=r"waiting up to 60 s for a heartbeat of process .* on far"),
        pytest.raises(UsageError, match=r"is still running: process .* on far"),
    ):
        take_over(client, held.run_id, clock)
    assert clock.now == 7


def test_an_owner_elsewhere_whose_heart_stands_still_is_dead(client: MlflowClient) -> None:
    """After a minute here, whatever its own clock says; the former owner finds that out, and writes no more."""
    former = Claim(client, new_run(client, replace(ELSEWHERE, since="2999")), ELSEWHERE)
    clock = Clock()
    with pytest.warns(UserWarning, match="waiting"):
        held = take_over(client, former.run_id, clock)
    assert (clock.now, held.term) == (ownership.STALE_SECONDS, 2)
    before = Ownership.read(client, held.run_id)
    for act in (former.check, former.beat):
        with pytest.raises(RunLost, match=rf"taken over by process {os.getpid()} on .*writes no more of it$"):
            act()
    assert Ownership.read(client, held.run_id) == before
    held.beat()
    assert Ownership.read(client, held.run_id).heartbeat != before.heartbeat


def test_who_releases_while_it_is_watched_is_waited_for_no_longer(client: MlflowClient) -> None:
    former = Claim(client, new_run(client, ELSEWHERE), ELSEWHERE)
    clock = Clock(former.release)
    with pytest.warns(UserWarning, match="waiting"):
        take_over(client, former.run_id, clock)
    assert clock.now == ownership.LOOK_SECONDS


def test_of_takeovers_at_the_same_time_one_succeeds(client: MlflowClient) -> None:
    """All have seen the owner dead before any of them writes."""
    run_id, all_see = new_run(client, replace(ELSEWHERE, machine=ownership.machine(), process=0)), threading.Barrier(4)
    held: list[Claim] = []
    refused: list[str] = []

    def take() -> None:
        all_see.wait()
        try:
            held.append(ownership.claim(client, run_id, Owner.of_this_process(), 2))
        except UsageError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(held), len(refused)) == (1, 3)
    assert all("has just taken it over" in message for message in refused)
    held[0].check()


def test_a_run_is_released_however_its_writing_ends(client: MlflowClient) -> None:
    """But not where the store is away, and never by who has lost it."""
    for error in (RuntimeError, KeyboardInterrupt, RecordError):
        held = Claim(client, new_run(client, owner := Owner.of_this_process()), owner)
        with pytest.raises(error), ownership.held(held):
            raise error
        assert Ownership.read(client, held.run_id).is_free
        assert not owner.is_alive
    held = Claim(client, new_run(client, owner := Owner.of_this_process()), owner)
    with pytest.raises(RunLost), ownership.held(held):
        raise RunLost
    assert not Ownership.read(client, held.run_id).is_free
    assert not owner.is_alive
