"""A connection: requests to a node within a time limit, and one clear error where there is no Dask or no scheduler."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator

import pytest

from pipeline.base.errors import ClusterUnavailable, UsageError
from pipeline.cluster import connection as module
from pipeline.cluster.connection import Connection
from tests.support.dask_processes import one_process_cluster

PATIENCE = 120.0


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    with one_process_cluster(1) as local:
        opened = Connection(local.scheduler_address)
        yield opened
        opened.close()


async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"


def test_a_request_to_a_node_has_a_time_limit(connection: Connection) -> None:
    """An answer in time is returned; one that does not come is an error."""
    ((address, (age, _)),) = connection.heard(PATIENCE).items()
    assert 0 <= age < PATIENCE
    assert connection.connected
    assert connection.call(address, nap, 0.0, seconds=PATIENCE).result(PATIENCE) == "rested"
    with pytest.raises(OSError):
        connection.call(address, nap, 2 * PATIENCE, seconds=0.05).result(PATIENCE)


def test_an_address_without_a_scheduler_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while, with the address."""
    monkeypatch.setattr(module, "CONNECT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(ClusterUnavailable, match=f"no Dask scheduler answers at {address}"):
        Connection(address)


def test_without_dask_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask is an extra."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"pip install 'adaptive-step\[cluster\]'"):
        Connection("tcp://127.0.0.1:8786")
