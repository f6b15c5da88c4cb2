"""The program that a command's arguments name: a file, stdin or the task's own."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from pipeline.base.errors import UsageError
from pipeline.cli.program_arguments import ProgramArguments, read_program
from tests.support.scripted_runs import RIGHT, tasks

TASK = tasks()[0]


def test_a_program_is_read_from_a_file_stdin_or_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is named takes precedence over the task's own program."""
    file = tmp_path / "program.step"
    file.write_text(RIGHT)
    monkeypatch.setattr("sys.stdin", io.StringIO("return E0"))
    own = TASK.model_copy(update={"impl": "return 1"})
    assert read_program(ProgramArguments(task="t", impl=str(file)), own) == RIGHT
    assert read_program(ProgramArguments(task="t", impl="-"), own) == "return E0"
    assert read_program(ProgramArguments(task="t"), own) == "return 1"


def test_a_program_that_cannot_be_read_is_refused_in_one_line(tmp_path: Path) -> None:
    """A file that is missing, one that is not text, and a task without a program."""
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    cases = {str(tmp_path / "no"): "No such file", str(binary): "not UTF-8 text", None: "this task has no `impl`"}
    for impl, message in cases.items():
        with pytest.raises(UsageError, match=message) as caught:
            read_program(ProgramArguments(task="t", impl=impl), TASK)
        assert "\n" not in str(caught.value)
