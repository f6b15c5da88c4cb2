"""The server's resources: of STeP the documentation's pages, of another language its prompt and its skill."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError

from pipeline.actions.skill import skill
from pipeline.base.files import DATA, DOCS
from pipeline.base.languages import DEFAULT
from pipeline.base.text import visible
from pipeline.languages import registry
from pipeline.mcp_server.tools import Toolbox, safe_text

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
    """Adds what there is to read about the language, and the list of tasks."""
    scheme = f"{tools.language or DEFAULT}://"

    def add(name: str, description: str, read: Any, address: str = "") -> None:
        resource = server.resource(
            scheme + (address or name), name=name, description=description, mime_type="text/markdown"
        )
        resource(read)

    if tools.language is None:
        for name, (file, description) in PAGES.items():
            add(name, description, _reader(file))
        for name, (folder, description) in FOLDERS.items():
            add(f"{name} page", description, _page_reader(folder), f"{name}/{{page}}")
    else:
        spoken = registry.find(tools.language)
        add("language", "The language, as its author teaches it.",
            lambda: spoken.instructions("proposer", ir=True, kind="full"))  # fmt: skip
        add("skill", "An Agent Skill: the language, and solved tasks.", lambda: skill(spoken))
    add("files", "The names of the task files that tools accept.",
        lambda: safe_text("\n".join(tools.workspace.names())))  # fmt: skip


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
