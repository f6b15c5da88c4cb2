"""The server: what it offers, over stdin and stdout."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

from pipeline.base.errors import print_message
from pipeline.mcp_server.reference import add_prompts, add_resources
from pipeline.mcp_server.tools import Toolbox, language
from pipeline.mcp_server.workspace import Workspace
from pipeline.verification.limits import ProgramLimits, checking_pool
from pipeline.verification.pool import cores

if TYPE_CHECKING:
    from pipeline.mcp_server.nearest import Example

NAME = "pipeline.mcp"
INSTRUCTIONS = """\
Tools for writing machine-learning operators in STeP (Streaming Tensor Programs), a small language for streaming
hardware. Read the resource step://language first, and step://cookbook when something seems impossible. A good order:
`examples` for the task, write a draft, `check` it until no rule is broken, then `verify`. If `verify` fails at stage
`value`, `explain` says where the values part. `generate` searches for a program by itself. Only `verify` decides.
"""


@contextlib.contextmanager
def opened(
    workspace: Workspace, limits: ProgramLimits, minutes: float, program: str | None = None
) -> Iterator[MCPServer[Any]]:
    """The server of a folder, with all tools, resources and prompts; its workers end with the context.

    Args:
        workspace: The task files that clients may name.
        limits: Of programs.
        minutes: The most that a search may take.
        program: A compiled program, whose demonstrations are examples.
    """
    pool = cache(lambda: checking_pool(cores(), limits))

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
    tools = Toolbox(workspace, pool, limits, minutes, _learned(program))
    annotations = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for tool in (tools.check, tools.verify, tools.explain, tools.cost, tools.examples, tools.generate):
        server.add_tool(tool, description=inspect.getdoc(tool), annotations=annotations)
    add_resources(server, tools)
    add_prompts(server, tools, program)
    try:
        yield server
    finally:
        if pool.cache_info().currsize:
            pool().kill_workers()


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
