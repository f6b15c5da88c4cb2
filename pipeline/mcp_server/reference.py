"""The server's resources and prompts: the language, the cookbook, and the instructions of the agent's roles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.server.mcpserver.prompts.base import AssistantMessage, Message, UserMessage
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from pipeline.base.errors import print_message
from pipeline.base.paths import DATA, DOCS
from pipeline.base.text import visible
from pipeline.mcp_server.tools import Text, Toolbox, language, safe_text, tool_errors

SCHEME = "step://"
SKILL = DATA / "skill" / "step"
PAGES: Mapping[str, tuple[Path, str]] = {
    "language": (DOCS / "language.md", "The language: streams, element types, rules, limits and verdicts."),
    "tasks": (DOCS / "tasks.md", "Task files: every key, and advice on solvable tasks."),
    "cookbook": (DOCS / "cookbook/index.md", "Recipes for conditions, windows, slices and routing: an index."),
    "primitives": (DOCS / "primitives/index.md", "The primitives: an index."),
    "skill": (SKILL / "SKILL.md", "The Agent Skill of the language: the steps of work."),
}
"""The pages by the name in their address: the file, and a description."""
FOLDERS: Mapping[str, tuple[Path, str]] = {
    "cookbook": (DOCS / "cookbook", "A recipe: a task and its program, line by line."),
    "primitives": (DOCS / "primitives", "A primitive: its arguments, its rules, and streams before and after it."),
    "skill": (SKILL / "references", "A reference of the skill: language, primitives or patterns."),
}
"""The folders with a page for each name."""


def add_resources(server: MCPServer[Any], tools: Toolbox) -> None:
    """Adds the pages, a page for each recipe and primitive, and the list of tasks."""
    for name, (file, description) in PAGES.items():
        server.resource(f"{SCHEME}{name}", name=name, description=description, mime_type="text/markdown")(_reader(file))
    for name, (folder, description) in FOLDERS.items():
        server.resource(
            f"{SCHEME}{name}/{{page}}", name=f"{name} page", description=description, mime_type="text/markdown"
        )(_page_reader(folder))

    @server.resource(f"{SCHEME}files", name="files", description="The names of the task files that tools accept.")
    def files() -> str:
        """One name a line."""
        return safe_text("\n".join(tools.workspace.names()))


def _reader(path: Path) -> Any:
    def read() -> str:
        return path.read_text(encoding="utf-8")

    return read


def _page_reader(folder: Path) -> Any:
    def read(page: str) -> str:
        pages = {path.stem: path for path in folder.glob("*.md")}
        if page not in pages:
            raise ResourceNotFoundError(f"{visible(page[:80])}: expected one of {', '.join(sorted(pages))}")
        return pages[page].read_text(encoding="utf-8")

    return read


def add_prompts(server: MCPServer[Any], tools: Toolbox, program: str | None) -> None:
    """Adds a prompt for each of the agent's roles, with the demonstrations of a compiled program if one is named."""

    @server.prompt(description="Write a program for a task: the language, solved examples, and the task.")
    def proposer(task: Text) -> list[Message]:
        """The proposer's request."""
        return _request(_agent(program).proposer.predict, {"task": _task(tools, task)})

    @server.prompt(description="Repair the affine rule: insert Copy where a program consumes a stream more than once.")
    def guardian(task: Text, program_text: Text) -> list[Message]:
        """The guardian's request."""
        inputs = {"task": _task(tools, task), "input_impl": program_text}
        return _request(_agent(program).guardian.predict, inputs)

    @server.prompt(description="Repair a program that fails, from the verifier's findings.")
    def refiner(task: Text, program_text: Text) -> list[Message]:
        """The refiner's request; the reference's values are left out of it."""
        from pipeline.agent.refiner import without_reference_values

        with prompt_errors():
            found = tools.checked(task, program_text)
        feedback = without_reference_values(found.stage, found.feedback)
        inputs = {"task": _task(tools, task), "input_impl": program_text, "diagnostics": feedback}
        return _request(_agent(program).refiner.predict, inputs)


@contextmanager
def prompt_errors() -> Iterator[None]:
    """Within the context, an error of a tool is one of the request, whose message the client is shown."""
    try:
        yield
    except ToolError as error:
        raise MCPError(INVALID_PARAMS, str(error)) from None


@cache
def _agent(program: str | None) -> Any:
    """The agent of a compiled program, or the uncompiled one, with all roles."""
    language()
    from pipeline.agent.agent import Agent
    from pipeline.running.learned import learned_agent

    agent = Agent("gated", refine=1)
    if program is not None:
        compiled = learned_agent(program, lambda line: print_message("pipeline.mcp", line))
        if compiled.proposer.kind == "predict":
            agent.proposer = compiled.proposer
    return agent


def _task(tools: Toolbox, name: str) -> Any:
    language()
    from pipeline.verification.task_files import load_task_named

    with prompt_errors(), tool_errors():
        return load_task_named(str(tools.workspace.path(name))).without_impl()


def _request(predictor: Any, inputs: Mapping[str, Any]) -> list[Message]:
    """The request of one of the agent's predictors; a prompt has no system message, so the user says all of it."""
    from signatures import YAMLAdapter

    messages = YAMLAdapter().format(predictor.signature, predictor.demos, dict(inputs))
    return [*_alternating(messages)]


def _alternating(messages: list[dict[str, Any]]) -> Iterator[Message]:
    said = ""
    for message in messages:
        if message["role"] == "assistant":
            yield UserMessage(safe_text(said))
            yield AssistantMessage(safe_text(str(message["content"])))
            said = ""
        else:
            said += f"\n\n{message['content']}" if said else str(message["content"])
    yield UserMessage(safe_text(said))
