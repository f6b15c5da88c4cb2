"""The server: what it offers, over stdin and stdout."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

from pipeline.base.errors import print_message
from pipeline.base.languages import DEFAULT
from pipeline.mcp_server.reference import add_resources
from pipeline.mcp_server.tools import Toolbox, imports
from pipeline.mcp_server.workspace import Workspace
from pipeline.verification.limits import ProgramLimits, checking_pool
from pipeline.verification.pool import cores
from pipeline.verification.shown_programs import Program

NAME = "pipeline.mcp"
INSTRUCTIONS = """\
Tools for writing machine-learning operators in the language {name}. Read the resource {name}://language first. A good
order: `examples` for the task, write a draft, `check` it until no rule is broken, then `verify`. Only `verify` decides.
"""


@contextlib.contextmanager
def opened(
    workspace: Workspace, limits: ProgramLimits, program: str | None = None, language: str | None = None
) -> Iterator[MCPServer[Any]]:
    """The server of a folder, with all tools and resources; its workers end with the context.

    Args:
        workspace: The task files that clients may name.
        limits: Of programs.
        program: A compiled program, whose demonstrations are examples.
        language: Of the programs; None for the default.
    """
    pool = cache(lambda: checking_pool(cores(), limits, language))

    @contextlib.asynccontextmanager
    async def started(_: MCPServer[Any]) -> AsyncIterator[None]:
        """Starts the workers, once stdin and stdout are the transport's alone; imports the tools' modules meanwhile."""
        importing = threading.Thread(target=imports, name="imports", daemon=True)
        importing.start()
        await anyio.to_thread.run_sync(pool)
        yield
        # Python must not end in the midst of an import.
        await anyio.to_thread.run_sync(importing.join)

    server: MCPServer[Any] = MCPServer(
        "adaptive-step",
        instructions=INSTRUCTIONS.format(name=language or DEFAULT),
        version=_version(),
        lifespan=started,
        log_level="WARNING",
    )
    tools = Toolbox(workspace, pool, limits, language, _learned(program))
    annotations = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for tool in (tools.check, tools.verify, tools.examples):
        server.add_tool(tool, description=inspect.getdoc(tool), annotations=annotations)
    add_resources(server, tools)
    try:
        yield server
    finally:
        if pool.cache_info().currsize:
            pool().kill_workers()


def _learned(program: str | None) -> Callable[[], Sequence[Program]]:
    """Gives the demonstrations of a compiled program, which is read once."""

    @cache
    def read() -> tuple[Program, ...]:
        from pipeline.running.gate import learned_agent, solved_examples

        if program is None:
            return ()
        found = enumerate(solved_examples(learned_agent(program, partial(print_message, NAME))).values(), 1)
        return tuple(Program(each.task, f"learned: {number}", each.program) for number, each in found)

    return read


def _version() -> str:
    try:
        return version("adaptive-step")
    except PackageNotFoundError:
        return ""
