"""Where the work is done, by `--cluster`: on this machine unless a cluster is named."""

from __future__ import annotations

import pytest

from pipeline.base.machine import cores
from pipeline.running.workers import open_workers
from pipeline.verification.workers import LocalWorkers
from tests.support import crashing


@pytest.mark.parametrize("address", [None, "none"])
def test_without_a_cluster_this_machine_s_cores_work(address: str | None) -> None:
    """`none` is what a resumed run is given that had a cluster before."""
    with open_workers(address, "test") as workers:
        assert isinstance(workers, LocalWorkers)
        assert workers.count == cores()


@pytest.mark.slow
def test_nodes_of_this_machine_start_and_end_with_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """A message says how many there are; none of their processes is left."""
    from pipeline.verification.workers import PoolSettings
    from tests.pipeline.cluster.test_cluster import alive
    from tests.support.dask_processes import eventually

    with open_workers("local:2", "test") as workers, workers.pool(PoolSettings(120.0, 2**29)) as pool:
        processes = {*pool.map(crashing.process_id, range(50))}
        assert len(processes) == 2
    assert "test: cluster local:2: 2 nodes, 2 workers" in capsys.readouterr().err
    eventually(lambda: not any(alive(process) for process in processes), "the end of the workers")
