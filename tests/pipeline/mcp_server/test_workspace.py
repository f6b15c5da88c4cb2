"""A client names task files below the user's folder, and nothing else."""

from pathlib import Path

import pytest

from pipeline.base.errors import UsageError
from pipeline.mcp_server.workspace import Workspace


def test_tasks_are_listed_by_their_paths_below_the_folder(task_folder: Path) -> None:
    """Without suffix; a link that leads out of the folder is none of them."""
    assert Workspace(task_folder).names() == ["broken", "double", "more/solved", "more/wrong"]


@pytest.mark.parametrize("name", ["more/solved", "more/solved.yaml", "more/../more/solved", "{}/more/solved.yaml"])
def test_a_task_is_found_with_and_without_suffix(name: str, task_folder: Path) -> None:
    """Its file is the same; agents like to name files by absolute paths."""
    found = Workspace(task_folder).path(name.format(task_folder))
    assert found == task_folder / "more" / "solved.yaml"


OUTSIDE = [
    "",
    "../outside",
    "../outside.yaml",
    "{}/../outside.yaml",
    "link",
    "/etc/passwd",
    "more",
    "a\0b",
    "x" * 5000,
]


@pytest.mark.parametrize("name", OUTSIDE)
def test_anything_else_is_refused(name: str, task_folder: Path) -> None:
    """Paths and links that lead out, folders, and names that no file has; the message lists the tasks."""
    with pytest.raises(UsageError, match=r"no task file below .*; there are: broken, double, more/solved, more/wrong$"):
        Workspace(task_folder).path(name.format(task_folder))


def test_files_of_functions_are_no_tasks(tmp_path: Path) -> None:
    """As for every command."""
    (tmp_path / "chip.fns.yaml").write_text("fns: []\n")
    workspace = Workspace(tmp_path)
    assert workspace.names() == []
    with pytest.raises(UsageError, match="there are: none"):
        workspace.path("chip.fns")


def test_a_folder_is_needed(tmp_path: Path) -> None:
    """The message names it."""
    with pytest.raises(UsageError, match=r"nowhere: expected a folder with task files"):
        Workspace(tmp_path / "nowhere")
