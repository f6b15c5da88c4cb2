"""How the command line and the environment say what cells are confined to."""

import logging
import os
from pathlib import Path

import pytest

from pipeline import verify
from pipeline.base.errors import UsageError, run_command
from pipeline.verification.isolation import confinement
from pipeline.verification.isolation.confinement import MODE, READS, Means, Sandbox
from pipeline.verification.judge import Request, judge
from pipeline.verification.limits import ProgramLimits, checking_pool


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without either variable; what a test sets is undone."""
    for name in (MODE, READS):
        monkeypatch.setenv(name, "")


def test_the_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line comes before it, and adds to what may be read."""
    assert confinement.current() == Sandbox("auto")
    monkeypatch.setenv(MODE, "off")
    monkeypatch.setenv(READS, f"/usr{os.pathsep}/opt")
    assert confinement.current() == Sandbox("off", ("/usr", "/opt"))
    confinement.use({"sandbox": "auto", "allow_read": ["/srv"]})
    assert confinement.current() == Sandbox("auto", ("/usr", "/opt", "/srv"))


def test_an_unknown_mode_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the variable, and what it may be."""
    monkeypatch.setenv(MODE, "on")
    with pytest.raises(UsageError, match="ADAPTIVE_STEP_SANDBOX: expected auto, require, off, got 'on'"):
        confinement.current()


def test_what_a_system_lacks_is_said_or_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`auto` says so once, `require` ends the command, and `off` is silent."""
    monkeypatch.setattr(Means, "here", lambda: Means(0, True))
    program = tmp_path / "program"
    program.write_text("return E0")
    for mode, message, code in (("auto", "no Landlock", 1), ("require", "--sandbox require: ", 2), ("off", "", 1)):
        assert run_command(verify.NAME, verify.main, ["gemm/0", str(program), "--sandbox", mode]) == code
        errors = capsys.readouterr().err
        assert message in errors
        assert errors.count("Landlock") == bool(message)


def test_a_library_user_is_told_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """In the log, with the first pool."""
    monkeypatch.setattr(Means, "here", lambda: Means(0, True))
    confinement._SAID.clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            confinement.current()
    assert len(caplog.records) == 1


def test_what_may_be_read_must_be_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A typing error is found before anything runs."""
    gone = str(tmp_path / "gone")
    assert run_command(verify.NAME, verify.main, ["gemm/0", "--allow-read", gone]) == 2
    assert f"expected a file or folder, found none at {gone}" in capsys.readouterr().err


def test_a_file_that_is_saved_anew_is_read_again(tmp_path: Path) -> None:
    """The task's own, and one beside it that it reads, as editors save them: another file under the name."""
    task, data, saved = tmp_path / "double.yaml", tmp_path / "data", tmp_path / "saved"
    content = f"""
global: factor = int(open({str(data)!r}).read())
inputs: [{{name: E0, dtype: fp32, dims: [M], data_gen: torch.rand}}]
fns:
- {{name: Double, apply: "return [input[0] * factor]", input_dtype: fp32, output_dtype: fp32, func_name: fn}}
outputs: [{{name: S0, dtype: fp32, dims: [M], data_transform: ["input_data['E0'] * 2"]}}]
"""
    data.write_text("2")
    task.write_text(content)
    request = Request(path=str(task), text="return step.Map(fn=fn).apply(E0)")
    with checking_pool(1, ProgramLimits()) as pool:

        def passes() -> bool:
            return pool.submit(judge, request).result(60).passed

        assert passes()
        for path, text, right in ((data, "3", False), (task, content.replace("* 2", "* 3"), True)):
            saved.write_text(text)
            saved.replace(path)
            assert passes() == right


def test_a_task_reads_what_its_user_allows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not what it names itself; the variable and the option do the same."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("2")
    (tmp_path / "task").mkdir()
    task = tmp_path / "task" / "double.yaml"
    task.write_text(
        f"""
global: factor = int(open({str(tmp_path / "data" / "file")!r}).read())
inputs: [{{name: E0, dtype: fp32, dims: [M], data_gen: torch.rand}}]
fns:
- {{name: Double, apply: "return [input[0] * 2]", input_dtype: fp32, output_dtype: fp32, func_name: fn}}
outputs: [{{name: S0, dtype: fp32, dims: [M], data_transform: ["input_data['E0'] * 2"]}}]
impl: return step.Map(fn=fn).apply(E0)
"""
    )
    if not Means.here().missing:
        assert run_command(verify.NAME, verify.main, [str(task), "--sandbox", "require"]) == 2
        assert "PermissionError" in capsys.readouterr().err
    assert run_command(verify.NAME, verify.main, [str(task), "--allow-read", str(tmp_path / "data")]) == 0
