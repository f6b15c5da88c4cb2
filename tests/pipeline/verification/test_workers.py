"""Workers of this machine: as many as its cores, or as given; no more than there are calls."""

from pipeline.base.machine import cores
from pipeline.verification.pool import LocalWorkers, PoolSettings
from tests.support import crashing

SETTINGS = PoolSettings(120.0, 2**29)


def test_there_is_a_worker_for_each_core_unless_it_is_given() -> None:
    """A pool for a single call starts a single worker."""
    assert LocalWorkers().count == cores()
    assert LocalWorkers(3).count == 3
    with LocalWorkers(3).pool(SETTINGS, most=1) as pool:
        assert len({*pool.map(crashing.process_id, range(20))}) == 1
        pool.kill_workers()


def test_the_initializer_runs_in_each_worker_before_its_first_call() -> None:
    """A function of a module, as it has to be found there."""
    settings = PoolSettings(120.0, 2**29, crashing.hold_one)
    with LocalWorkers(1).pool(settings) as pool:
        assert pool.submit(crashing.held).result(120.0) == 1
        pool.kill_workers()
