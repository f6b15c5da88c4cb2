"""What tests of the server share: a folder of tasks, and a server of it within this process."""

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError

from pipeline.mcp_server.server import opened
from pipeline.mcp_server.workspace import Workspace
from pipeline.verification.limits import ProgramLimits
from tests.support.scripted_runs import RIGHT, TASK

Ask = Callable[..., Any]


@pytest.fixture(scope="session")
def task_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`double`, `more/solved` with its program, `more/wrong` with a wrong one, `broken`, and a link that leads out."""
    folder = tmp_path_factory.mktemp("served") / "tasks"
    (folder / "more").mkdir(parents=True)
    (folder / "double.yaml").write_text(TASK)
    impl = f"impl: |\n{textwrap.indent(RIGHT, '  ')}\n"
    (folder / "more" / "solved.yaml").write_text(TASK.replace("* 2", "* 3") + impl)
    (folder / "more" / "wrong.yaml").write_text(TASK.replace("input[0] * 2", "input[0] * 4") + impl)
    (folder / "broken.yaml").write_text("inputs: 3\n")
    (folder.parent / "outside.yaml").write_text(TASK)
    (folder / "link.yaml").symlink_to(folder.parent / "outside.yaml")
    return folder


@pytest.fixture(scope="session")
def server(task_folder: Path) -> Iterator[MCPServer[Any]]:
    with opened(Workspace(task_folder), ProgramLimits(limit_bytes=2**20)) as served:
        yield served


def _asking(server: MCPServer[Any]) -> Ask:
    """Calls a method of a client of the server, such as `call_tool`."""

    def asked(method: str, *args: Any, **options: Any) -> Any:
        async def session() -> Any:
            async with Client(server) as client:
                try:
                    return await getattr(client, method)(*args, **options)
                except MCPError as error:  # raised here, it would come in a group
                    return error

        answer = anyio.run(session)
        if isinstance(answer, MCPError):
            raise answer
        return answer

    return asked


@pytest.fixture
def asking() -> Callable[[MCPServer[Any]], Ask]:
    return _asking


@pytest.fixture
def ask(server: MCPServer[Any]) -> Ask:
    return _asking(server)
