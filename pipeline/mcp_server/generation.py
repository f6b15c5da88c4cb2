"""The tool that searches for a program: `pipeline.generate` in a process of its own, which a client can cancel."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import anyio
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from pipeline.mcp_server.outputs import GeneratedProgram, safe_text
from pipeline.mcp_server.tools import Result, TaskName, answered, language, tool_errors
from pipeline.mcp_server.workspace import Workspace

COMMAND = "pipeline.generate"
GRACE = 15.0
"""Seconds that a cancelled search has to end itself and its workers."""
_BEAT = 2.0
"""Seconds between two reports of progress while nothing else is to be said."""

Report = Callable[[str], Awaitable[None]]
"""Takes a line about what happens now."""


class Generation:
    """Searches for programs of tasks, with limits that the user set.

    Args:
        workspace: The task files that may be named.
        minutes: The most that a search may take.
        options: Further options of `pipeline.generate`, such as those that name a compiled program.
    """

    def __init__(self, workspace: Workspace, minutes: float, options: Sequence[str] = ()) -> None:
        self._workspace, self._minutes, self._options = workspace, minutes, options

    async def generate(
        self,
        task: TaskName,
        context: Context,
        minutes: Annotated[
            float | None, Field(gt=0, description="How long to search at most; the server has a limit, too.")
        ] = None,
    ) -> Annotated[Result, GeneratedProgram]:
        """Search for a verified program: an LM's samples, then classical synthesis.

        It takes seconds to minutes and reports progress. Nothing is written; a program is returned if one passes.
        """
        await anyio.to_thread.run_sync(language)
        with tool_errors():
            path = self._workspace.path(task)
        limit = min(minutes or self._minutes, self._minutes)
        command = [sys.executable, "-m", COMMAND, str(path), "--json", "--max-minutes", str(limit)]
        start = time.monotonic()

        async def report(line: str) -> None:
            await context.report_progress(time.monotonic() - start, 60 * limit, safe_text(line))

        code, output = await run([*command, *self._options], report)
        found: dict[str, Any] = json.loads(output.splitlines()[-1]) if output.strip() else {}
        if "tasks" not in found:
            why = found.get("error", {}).get("message", f"the search ended with exit code {code}")
            raise ToolError(safe_text(why))
        [made] = found["tasks"].values()
        warnings = tuple(line for lines in found["warnings"].values() for line in lines)
        if not made["passed"]:
            advice = made["advice"]
            text = f"No program was found within {limit:g} minutes.\n{json.dumps(advice, indent=1) if advice else ''}"
            return answered(
                "\n".join([text, *warnings]),
                GeneratedProgram(
                    passed=False, program=None, found_by=None, detail=None, warnings=warnings, advice=advice
                ),
            )
        program, by, detail = made["impl"], made["found_by"], made["detail"]
        result = GeneratedProgram(
            passed=True, program=program, found_by=by, detail=detail, warnings=warnings, advice=None
        )
        notes = [f"# verified, found by {by}: {detail}", *(f"# warning: {line}" for line in warnings)]
        return answered("\n".join([program.strip(), "", *notes]), result)


async def run(command: Sequence[str], report: Report) -> tuple[int, str]:
    """Runs a command, and reports each line of its stderr; the exit code and its stdout.

    Where the caller is cancelled, the command is interrupted, and killed if it has not ended within `GRACE` seconds.
    """
    output: list[str] = []
    async with await anyio.open_process(command, stdin=None, start_new_session=True) as process:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_collect, process, output)
                group.start_soon(_relay, process, report)
                code = await process.wait()
            return code, "".join(output)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await _end(process)
            raise


async def _collect(process: Process, output: list[str]) -> None:
    assert process.stdout is not None
    output.extend([text async for text in TextReceiveStream(process.stdout, errors="replace")])


async def _relay(process: Process, report: Report) -> None:
    """Reports each line of stderr as it comes, and the last one again while none comes."""
    assert process.stderr is not None
    last, rest, stream = "starting", "", TextReceiveStream(process.stderr, errors="replace")
    while True:
        text = None
        with anyio.move_on_after(_BEAT):
            try:
                text = await stream.receive()
            except anyio.EndOfStream:
                return
        *lines, rest = (rest + (text or "")).split("\n")
        for line in lines or ([last] if text is None else []):
            last = line.removeprefix(f"{COMMAND}: ").strip() or last
            await report(last)


async def _end(process: Process) -> None:
    """Interrupts a command as Ctrl-C would, and kills it if that does not end it in time."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
        with anyio.move_on_after(GRACE):
            await process.wait()
            return
        process.kill()
        await process.wait()
