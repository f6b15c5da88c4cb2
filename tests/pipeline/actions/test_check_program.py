"""One program for one task: read, explained, and written as a script."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.actions.check_program import draw_program, load, pytest_script
from pipeline.base.errors import UsageError
from pipeline.cli.program_arguments import ProgramArguments
from tests.support.scripted_runs import RIGHT, TASK


@pytest.fixture
def arguments(tmp_path: Path) -> ProgramArguments:
    (tmp_path / "double.yaml").write_text(TASK)
    (tmp_path / "program.step").write_text(RIGHT)
    return ProgramArguments(task=str(tmp_path / "double.yaml"), impl=str(tmp_path / "program.step"))


def test_task_and_program_are_read_from_where_the_arguments_say(arguments: ProgramArguments) -> None:
    """As they stand."""
    task, text = load(arguments)
    assert text == RIGHT and [spec.name for spec in task.inputs] == ["E0"]


def test_a_picture_is_drawn_as_far_as_the_program_goes(arguments: ProgramArguments, tmp_path: Path) -> None:
    """Its errors are left to the verdict; a picture of another kind is refused."""
    pytest.importorskip("pygraphviz")
    for number, text in enumerate((RIGHT, "a = step.Streamify().apply(E0)\nreturn a")):
        path = tmp_path / f"{number}.svg"
        draw_program(arguments.task, text, str(path))
        assert "<svg" in path.read_text()
    with pytest.raises(UsageError, match=r"ends in \.svg"):
        draw_program(arguments.task, RIGHT, str(tmp_path / "graph.txt"))


def test_the_script_holds_task_program_and_type(arguments: ProgramArguments) -> None:
    """It depends on nothing of the project but the language."""
    script = pytest_script(arguments)
    compile(script, "script", "exec")
    assert "import pipeline" not in script and "from pipeline" not in script
    narrow = pytest_script(ProgramArguments(task=arguments.task, impl=arguments.impl, dtype="float32"))
    assert script != narrow and "float32" in narrow


def test_a_task_that_is_not_there_is_refused() -> None:
    """By the name that was given."""
    with pytest.raises(UsageError, match="nowhere"):
        load(ProgramArguments(task="nowhere.yaml"))
