"""`pipeline.codegen` writes a pytest script to stdout or to a file."""

from pathlib import Path

import pytest

from pipeline import codegen
from pipeline.base.errors import run_command
from tests.support.scripted_runs import RIGHT, TASK


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "double.yaml").write_text(TASK)
    (tmp_path / "program.step").write_text(RIGHT)
    return [str(tmp_path / "double.yaml"), str(tmp_path / "program.step")]


def test_the_script_goes_to_stdout_or_to_the_file_named(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same text; it is Python."""
    assert run_command(codegen.NAME, codegen.main, files) == 0
    script = capsys.readouterr().out
    compile(script, "script", "exec")
    assert "def test_" in script and "fn=fn" in script
    assert "import pipeline" not in script and "from pipeline" not in script, "it needs the language alone"
    assert run_command(codegen.NAME, codegen.main, [*files, "-o", str(tmp_path / "test_it.py")]) == 0
    assert ((tmp_path / "test_it.py").read_text(), capsys.readouterr().out) == (script, "")


def test_a_file_that_cannot_be_written_is_reported_in_one_line(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 2."""
    assert run_command(codegen.NAME, codegen.main, [*files, "-o", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "cannot write the file: Is a directory" in err and err.count("\n") == 1
