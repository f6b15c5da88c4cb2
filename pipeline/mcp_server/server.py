"""The server: its offers, and its two transports, stdin and stdout or HTTP on the loopback interface."""

from __future__ import annotations

import contextlib
import hmac
import inspect
import socket
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import anyio
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations
from starlette.types import ASGIApp, Receive, Scope, Send

from pipeline.base.errors import UsageError, print_message
from pipeline.base.machine import cores
from pipeline.mcp_server.generation import Generation
from pipeline.mcp_server.reference import add_prompts, add_resources
from pipeline.mcp_server.tools import Toolbox, language
from pipeline.mcp_server.workspace import Workspace
from pipeline.verification.limits import ProgramLimits, checking_pool
from pipeline.verification.pool import WorkerPool

if TYPE_CHECKING:
    from pipeline.mcp_server.nearest import Example

NAME = "pipeline.mcp"
LOOPBACK = "127.0.0.1"
PATH = "/mcp"
INSTRUCTIONS = """\
Tools for writing machine-learning operators in STeP (Streaming Tensor Programs), a small language for streaming
hardware. Read the resource step://language first, and step://cookbook when something seems impossible. A good order:
`examples` for the task, write a draft, `check` it until no rule is broken, then `verify`. If `verify` fails at stage
`value`, `explain` says where the values part. `generate` searches for a program by itself. Only `verify` decides.
"""
_NEEDED = ("torch", "sympy", "numpy", "yaml", "dspy")


class LazyPool:
    """Workers that start with the first call, or when asked to; safe to call from several threads."""

    def __init__(self, make: Callable[[], WorkerPool]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._pool: WorkerPool | None = None

    def __call__(self) -> WorkerPool:
        """The workers."""
        with self._lock:
            self._pool = self._pool or self._make()
            return self._pool

    def close(self) -> None:
        """Ends the workers, if there are any."""
        with self._lock:
            if self._pool is not None:
                self._pool.kill_workers()


def make_server(
    workspace: Workspace, pool: LazyPool, limits: ProgramLimits, minutes: float, program: str | None = None
) -> MCPServer[Any]:
    """The server of a folder, with all tools, resources and prompts.

    Args:
        workspace: The task files that clients may name.
        pool: Where tasks' code runs.
        limits: Of programs.
        minutes: The most that a search may take.
        program: A compiled program, whose demonstrations are examples, and which `generate` samples.
    """

    @contextlib.asynccontextmanager
    async def started(_: MCPServer[Any]) -> AsyncIterator[None]:
        """Starts the workers, once stdin and stdout are the transport's alone; imports the tools' modules meanwhile."""
        importing = threading.Thread(target=language, name="imports", daemon=True)
        importing.start()
        await anyio.to_thread.run_sync(pool)
        yield
        # Python must not end in the midst of an import.
        await anyio.to_thread.run_sync(importing.join)

    server: MCPServer[Any] = MCPServer(
        "adaptive-step", instructions=INSTRUCTIONS, version=_version(), lifespan=started, log_level="WARNING"
    )
    tools = Toolbox(workspace, pool, limits, _learned(program))
    generation = Generation(workspace, minutes, ["--program", program, "--proposer", "all"] if program else [])
    annotations = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for tool in (tools.check, tools.verify, tools.explain, tools.cost, tools.examples, generation.generate):
        server.add_tool(tool, description=inspect.getdoc(tool), annotations=annotations)
    add_resources(server, tools)
    add_prompts(server, tools, program)
    return server


def _learned(program: str | None) -> Callable[[], Sequence[Example]]:
    """Gives the verified demonstrations of a compiled program, which is read once."""

    @cache
    def read() -> tuple[Example, ...]:
        from pipeline.mcp_server.nearest import Example
        from pipeline.running.learned import learned_agent, solved_examples

        if program is None:
            return ()
        solved = solved_examples(learned_agent(program, partial(print_message, NAME)))
        return tuple(Example(f"learned: {number}", each) for number, each in enumerate(solved.values(), 1))

    return read


def _version() -> str:
    try:
        return version("adaptive-step")
    except PackageNotFoundError:
        return ""


def check_packages() -> None:
    """Raises `ModuleNotFoundError` for a package that the tools would miss later."""
    for name in _NEEDED:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def new_pool(limits: ProgramLimits, language: str | None = None) -> LazyPool:
    """Workers for a language's programs with these limits, one a core."""
    return LazyPool(lambda: checking_pool(cores(), limits, language))


def serve_stdio(server: MCPServer[Any]) -> None:
    """Serves the client that started this process, until it closes stdin."""
    anyio.run(server.run_stdio_async)


def serve_http(server: MCPServer[Any], port: int, token: str | None, say: Callable[[str], None]) -> None:
    """Serves clients on this machine until interrupted; `say` is told the address once it can be asked.

    Args:
        server: What answers.
        port: The port; 0 for any that is free.
        token: What a request must bring as `Authorization: Bearer`; None to answer all.
        say: Takes the line with the address.

    Raises:
        UsageError: The port can't be used.
    """
    app: ASGIApp = server.streamable_http_app(streamable_http_path=PATH, host=LOOPBACK)
    if token:
        app = BearerToken(app, token)
    with _listening(port) as listener:
        config = uvicorn.Config(app, log_level="warning", lifespan="on", timeout_graceful_shutdown=3)
        say(f"http://{LOOPBACK}:{listener.getsockname()[1]}{PATH}   (Ctrl-C stops it)")
        uvicorn.Server(config).run(sockets=[listener])


def _listening(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        listener.close()
        reason = error.strerror if isinstance(error, OSError) else "no such port"
        raise UsageError(f"can't listen on {LOOPBACK}:{port}: {reason}; try --port 0 for a free one") from None
    listener.listen()
    return listener


class BearerToken:
    """An application that answers only requests with the token; others get 401."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request with 401, or passes it on."""
        if scope["type"] == "http":
            given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            if not hmac.compare_digest(given, self._expected):
                await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
                await send({"type": "http.response.body", "body": b""})
                return
        await self._app(scope, receive, send)
