"""A node: its versions, and workers that end with a client that is gone."""

import platform

import pytest
import torch

from pipeline.cluster.cluster import installed, open_cluster, unusable
from pipeline.verification.pool import PoolSettings
from tests.support import crashing
from tests.support.dask_processes import one_process_cluster
from tests.support.processes import gone

PATIENCE = 120.0


def test_a_client_that_is_gone_leaves_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """They end when they have had no call for a while, and start again with the next one."""
    monkeypatch.setattr("pipeline.cluster.cluster.LEASE", 0.05)
    with (
        one_process_cluster(1) as local,
        open_cluster(local.scheduler_address) as cluster,
        cluster.pool(PoolSettings(PATIENCE, 2**29)) as pool,
    ):
        worker = pool.submit(crashing.process_id).result(PATIENCE)
        assert gone(worker)
        assert pool.submit(crashing.process_id).result(PATIENCE) != worker


def test_a_difference_is_named_with_both_versions() -> None:
    """All that differ, and no other; PyTorch need not be imported for it."""
    here = installed()
    assert here["torch"].partition("+")[0] == torch.__version__.partition("+")[0]
    assert here["python"] == platform.python_version()
    assert unusable(here) == unusable(here, here) == ""
    there = {**here, "torch": "1.0", "code": "0" * 12}
    found = unusable(here, there)
    assert f"code {here['code']} here, {'0' * 12} there, torch {here['torch']} here, 1.0 there;" in found
