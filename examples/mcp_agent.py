"""A scripted coding agent that writes two operators with the tools of `python -m pipeline.mcp`, offline.

    python examples/mcp_agent.py    # starts a server and speaks over stdin and stdout

No LM takes part: the drafts are given, two of them wrong, and what the agent does next depends on the server's answers
alone. A stream that is consumed twice gets a Copy, by the finding's code and place; a draft that breaks another rule,
or computes something else, is followed by the next one. It stops when `verify` says so. The session is printed as text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

PROJECT = Path(__file__).resolve().parents[1]
SHOWN = 14
"""Lines of an answer that are printed."""

DRAFTS: Mapping[str, Sequence[str]] = {
    "gemm/0": (
        "E2 = step.Zip().apply((E0, E1))\nE3 = step.Map(fn=fn_mul).apply(E2)\n"
        "E4 = step.Accum(fn=fn_add, b=1).apply(E3)\nreturn E4\n",
        "E2 = step.Bufferize(a=1).apply(E1)\nE3 = step.Repeat(n=M).apply(E2)\nE4 = step.Streamify().apply(E3)\n"
        "E5 = step.Zip().apply((E0, E4))\nE6 = step.Map(fn=fn_mul).apply(E5)\n"
        "E7 = step.Accum(fn=fn_add, b=1).apply(E6)\nreturn E7\n",
    ),
    "norm/0": (
        "E1 = step.Map(fn=fn_mean).apply(E0)\nE2 = step.Zip().apply((E0, E1))\nE3 = step.Map(fn=fn_minus).apply(E2)\n"
        "E4 = step.Map(fn=fn_square).apply(E3)\nE5 = step.Map(fn=fn_mean).apply(E4)\n"
        "E6 = step.Map(fn=fn_addeps).apply(E5)\nE7 = step.Map(fn=fn_sqrt).apply(E6)\n"
        "E8 = step.Zip().apply((E3, E7))\nE9 = step.Map(fn=fn_div).apply(E8)\nreturn E9\n",
    ),
}
"""The drafts for each task, by the task's name."""


class Agent:
    """Writes programs with a server's tools, and prints what it asks and is told."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.solved: dict[str, str] = {}

    async def work(self, drafts: Mapping[str, Sequence[str]] = DRAFTS) -> None:
        """Solves the tasks one after another."""
        language = await self._client.read_resource("step://language")
        _say("resource step://language", getattr(language.contents[0], "text", ""), 3)
        for task, texts in drafts.items():
            await self._call("examples", 6, task=task, count=1)
            program = await self._from_drafts(task, texts)
            if program is not None:
                self.solved[task] = program
        print(f"solved: {', '.join(self.solved)}")

    async def _from_drafts(self, task: str, texts: Sequence[str]) -> str | None:
        for text in texts:
            program = text
            found = await self._call("check", task=task, program=program)
            if found["diagnostics"] and all(each["code"] == "affine" for each in found["diagnostics"]):
                program = with_copies(program, [each["message"].split()[1] for each in found["diagnostics"]])
                found = await self._call("check", task=task, program=program)
            if found["passed"] and (await self._call("verify", task=task, program=program))["passed"]:
                return program
        return None

    async def _call(self, tool: str, lines: int = SHOWN, /, **arguments: Any) -> dict[str, Any]:
        answer = await self._client.call_tool(tool, arguments)
        asked = f"{tool} {arguments['task']}"
        if "program" in arguments:
            asked += f"\n{arguments['program'].rstrip()}"
        _say(asked, "".join(getattr(part, "text", "") for part in answer.content), lines)
        if answer.is_error:
            raise SystemExit(1)
        return dict(answer.structured_content or {})


def with_copies(program: str, streams: Sequence[str]) -> str:
    """The program with a Copy of each stream that it consumes twice."""
    lines = program.splitlines()
    for stream in streams:
        name = re.compile(rf"\b{stream}\b")
        uses = [place for place, line in enumerate(lines) if name.search(line.partition("apply(")[2])]
        for number, place in enumerate(uses):
            before, _, inside = lines[place].partition("apply(")
            lines[place] = f"{before}apply({name.sub(f'{stream}_{number}', inside)}"
        names = ", ".join(f"{stream}_{number}" for number in range(len(uses)))
        lines.insert(uses[0], f"{names} = step.Copy().apply({stream})")
    return "\n".join([*lines, ""])


def _say(asked: str, answer: str, lines: int = SHOWN) -> None:
    answered = answer.strip().splitlines()
    more = ["…"] if len(answered) > lines else []
    print("\n".join([*(f"> {line}" for line in asked.splitlines()), *answered[:lines], *more, ""]))


async def session(server: StdioServerParameters) -> Agent:
    """One session with a server: the agent, with what it has solved."""
    async with Client(server) as client:
        agent = Agent(client)
        await agent.work()
        return agent


def own_server() -> StdioServerParameters:
    """The command of a server of the benchmark's tasks."""
    words = ["-m", "pipeline.mcp", str(PROJECT / "data" / "tasks")]
    return StdioServerParameters(command=sys.executable, args=words, env={"PYTHONPATH": str(PROJECT)})


def main() -> int:
    """Returns 0 if every task is solved."""
    agent = anyio.run(session, own_server())
    return 0 if agent.solved.keys() == DRAFTS.keys() else 1


if __name__ == "__main__":
    sys.exit(main())
