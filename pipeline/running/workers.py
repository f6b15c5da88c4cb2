"""What runs a command's work: the cluster that `--cluster` names, or this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.base.addresses import NO_CLUSTER
from pipeline.base.errors import print_message
from pipeline.base.text import counted
from pipeline.cluster.cluster import open_cluster
from pipeline.verification.workers import LocalWorkers, Workers


@contextmanager
def open_workers(address: str | None, name: str) -> Iterator[Workers]:
    """The nodes of a cluster or, without an address, this machine's cores.

    Raises:
        UsageError: Dask is not installed, or a node has other versions.
        ClusterUnavailable: The cluster can't be used.
    """
    if address is None or address == NO_CLUSTER:
        yield LocalWorkers()
        return
    with open_cluster(address, name) as cluster:
        print_message(name, f"cluster {address}: {counted(cluster.nodes, 'node')}, {counted(cluster.count, 'worker')}")
        yield cluster
