"""HTTP is for this machine alone, and with a token for those who have it; workers start when needed."""

import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from pipeline.base.errors import UsageError
from pipeline.mcp_server.server import LazyPool, serve_http
from tests.support.forked import Forked
from tests.support.scripted_runs import RIGHT

TOKEN = "open-sesame"


@pytest.fixture(scope="module")
def address(task_folder: Path) -> Iterator[str]:
    """Of a server that wants a token."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADAPTIVE_STEP_MCP_TOKEN", TOKEN)
        process = Forked("-m", "pipeline.mcp", str(task_folder), "--http", "--port", "0")
    with process:
        line = process.stderr.readline()
        assert line.startswith("pipeline.mcp: http://127.0.0.1:") and line.rstrip().endswith("(Ctrl-C stops it)")
        yield line.split()[1]
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


def status(address: str, **headers: str) -> int:
    """The status of a request that any server of the protocol understands."""
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
    kinds = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(address, body, kinds | headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_tools_answer_over_http(address: str) -> None:
    """With the SDK's client; two calls at a time."""

    async def session() -> list[Any]:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=None) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            found: list[Any] = []

            async def verify(program: str) -> None:
                found.append(await client.call_tool("verify", {"task": "double", "program": program}))

            async with anyio.create_task_group() as group:
                group.start_soon(verify, RIGHT)
                group.start_soon(verify, "return E0")
            return found

    results = anyio.run(session)
    assert sorted(result.structured_content["passed"] for result in results) == [False, True]


def test_a_request_without_the_token_is_refused(address: str) -> None:
    """So is one with another token."""
    assert status(address) == status(address, Authorization="Bearer close") == 401


def test_a_page_of_another_site_is_refused(address: str) -> None:
    """A browser names the page's origin, and the host by which it was led here."""
    own = {"Authorization": f"Bearer {TOKEN}"}
    assert status(address, Origin="https://elsewhere.example", **own) == 403
    assert status(address, Host="elsewhere.example", **own) == 421


def test_a_port_in_use_is_reported_in_a_line(server: Any) -> None:
    """The message says how to get a free one."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"can't listen on 127.0.0.1:{port}: Address already in use.*--port 0"):
            serve_http(server, port, None, print)


def test_workers_start_once_and_when_asked_for() -> None:
    """A server that nobody asks has none to end."""
    made: list[Any] = []

    class Pool:
        killed = False

        def kill_workers(self) -> None:
            self.killed = True

    def make() -> Any:
        made.append(Pool())
        return made[-1]

    lazy = LazyPool(make)
    lazy.close()
    assert not made
    assert lazy() is lazy() is made[0]
    lazy.close()
    assert made[0].killed
