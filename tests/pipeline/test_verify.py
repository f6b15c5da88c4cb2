"""`pipeline.verify` holds these.

- Exit code 0 for a program that passes, 1 for one that does not, 2 for a file that can't be used.
- Diagnostics go to stdout in the one error style, or as one JSON object and nothing else.
- A bad task file is reported in one message with file, line, place and what was expected, without a traceback.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline import verify
from pipeline.base.errors import run_command
from step_runtime.tasks.task import dump_task
from tests.support.overfits import PLANTED
from tests.support.scripted_runs import RIGHT, TASK


@pytest.fixture
def task_file(tmp_path: Path) -> str:
    path = tmp_path / "double.yaml"
    path.write_text(TASK)
    return str(path)


def run(*argv: str) -> int:
    return run_command(verify.NAME, verify.main, argv)


def test_a_right_program_passes(task_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From a file, as text."""
    program = tmp_path / "program.txt"
    program.write_text(RIGHT)
    assert run(task_file, str(program)) == 0
    assert capsys.readouterr() == (f"{program}: passed\n", "")


def test_a_wrong_program_is_reported_where_and_why(
    task_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From stdin; file:line:column, the line with carets, a hint."""
    monkeypatch.setattr("sys.stdin", io.StringIO("E1 = step.Map(fn=fun).apply((E0))\nreturn E1"))
    assert run(task_file, "-") == 1
    out, err = capsys.readouterr()
    assert out.startswith("double:1:")
    assert "^^^" in out
    assert err == ""


def test_json_is_one_object_and_nothing_else(
    task_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every diagnostic has code, message, line, column and hint."""
    monkeypatch.setattr("sys.stdin", io.StringIO("E1 = step.Zip().apply((E0, E0))\nreturn E1"))
    assert run(task_file, "-", "--json") == 1
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert result["passed"] is False
    assert result["stage"] in ("type", "affine", "shape")
    assert result["diagnostics"]
    for diagnostic in result["diagnostics"]:
        assert {"code", "message", "line", "column", "hint"} <= diagnostic.keys()


def test_json_of_a_right_program(
    task_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No stage, no diagnostics."""
    monkeypatch.setattr("sys.stdin", io.StringIO(RIGHT))
    assert run(task_file, "-", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["schema"], result["command"], result["task"]) == (1, "verify", "double")
    assert (result["passed"], result["stage"], result["diagnostics"], result["warnings"]) == (True, None, [], [])


def test_wrong_values_are_followed_to_their_stream(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With `--values`, beside the verdict that the program has without."""
    task, program = tmp_path / "triple.yaml", tmp_path / "program.step"
    task.write_text(TASK.replace("['E0'] * 2", "['E0'] * 3"))
    program.write_text(RIGHT)
    assert run(str(task), str(program)) == 1
    plain = capsys.readouterr().out
    assert run(str(task), str(program), "--values") == 1
    out = capsys.readouterr().out
    assert out.startswith(plain.rstrip())
    assert "beside values that the reference computes" in out and ": not in the reference" in out


def test_a_task_with_an_impl_needs_no_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A solution as runs record it is verified as it stands."""
    path = tmp_path / "solved.yaml"
    path.write_text(TASK + "impl: |\n  " + RIGHT.replace("\n", "\n  "))
    assert run(str(path)) == 0
    assert capsys.readouterr().out == "solved: passed\n"


def test_a_benchmark_task_goes_by_its_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`gemm/1` is a file below data/tasks."""
    monkeypatch.setattr("sys.stdin", io.StringIO("return E0"))
    assert run("gemm/1", "-") == 1
    assert capsys.readouterr().out.startswith("gemm/1")


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (("dtype: fp32", "dtype: fp31"), ["double.yaml:2", "inputs[0].dtype", "fp31"]),
        (("dims: [M]", "dims: [Q]"), ["double.yaml:2", "inputs[0].dims[0]", "Q"]),
        (("inputs:", "input:"), ["double.yaml", "input", "unknown key"]),
        (("fp32", "[fp32"), ["double.yaml", "expected YAML"]),
    ],
)
def test_a_bad_task_file_is_reported_in_one_message(
    change: tuple[str, str], reported: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """File, line, place in the file and what was expected; exit code 2, no traceback."""
    path = tmp_path / "double.yaml"
    path.write_text(TASK.replace(*change, 1))
    assert run(str(path), "-") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pipeline.verify: ")
    assert "Traceback" not in err
    assert all(part in err for part in reported), err


def test_files_that_are_not_there_or_not_text(
    task_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line each."""
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    for argv, reported in [
        ((task_file, str(tmp_path / "none")), "none: cannot read the program: No such file or directory"),
        ((task_file, str(binary)), "binary: cannot read the program: it is not UTF-8 text"),
        (("nowhere/7", "-"), "nowhere/7: no such task"),
        (("gemm", "-"), "gemm: stands for 3 tasks; name one"),
        ((str(tmp_path), "-"), "stands for"),
        ((task_file,), "this task has no `impl`"),
        ((), "the following arguments are required: TASK"),
    ]:
        if argv and argv[0] == str(tmp_path):
            (tmp_path / "other.yaml").write_text(TASK)
        assert run(*argv) == 2
        err = capsys.readouterr().err
        assert reported in err
        assert err.count("\n") == 1


def test_mutants_that_survive_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the change to the task that kills them, in words and in JSON; of several programs, with the score alone."""
    overfit = PLANTED["sign"]
    task, program = tmp_path / "sign.yaml", tmp_path / "p.step"
    task.write_text(dump_task(overfit.task))
    program.write_text(overfit.right)
    assert run(str(task), str(program), "--mutants", "--json") == 0
    found = json.loads(capsys.readouterr().out)["mutants"]
    changes = {each["change"] for each in found["survivors"]}
    assert any(change.startswith("`stress: true`") for change in changes) and 0.9 < found["score"] < 1
    assert run(str(task), str(program), str(task), str(program), "--mutants") == 0
    assert f"mutants: {found['score']:.1%} killed" in capsys.readouterr().out


def test_exact_says_what_is_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a sentence, in JSON, and as a warning where the task's inputs hide a difference."""
    double, hidden, program = tmp_path / "double.yaml", tmp_path / "hidden.yaml", tmp_path / "p.step"
    double.write_text(TASK)
    hidden.write_text(TASK.replace("input_data['E0'] * 2", "input_data['E0'].abs() * 2"))
    program.write_text(RIGHT)
    assert run(str(double), str(program), str(hidden), str(program), "--exact", "--no-stress") == 0
    out = capsys.readouterr().out
    assert "double.yaml" in out and "exact: proved" in out and "exact: different" in out
    assert "exact-different: differs from the reference in exact arithmetic" in out
    assert "2 programs: 2 passed (1 proved), 0 failed" in out
    assert run(str(double), str(program), "--exact", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["exact"]["answer"] == "proved" and found["exact"]["bits"] >= 60
