"""`pipeline.verify` holds these.

- Exit code 0 for a program that passes, 1 for one that does not, 2 for a file that can't be used.
- Diagnostics go to stdout in the one error style, or as one JSON object and nothing else.
- Of many programs at once each is judged for itself, in order, with files that build servers and editors read.
- A bad task file is reported in one message with file, line, place and what was expected, without a traceback.
"""

import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pipeline import verify
from pipeline.base.errors import run_command
from pipeline.base.outputs import BatchOutput
from tests.support.scripted_runs import RIGHT, TASK

TASK_OF_ROWS = """
inputs: [{name: E0, dtype: fp32, dims: [N, M], data_gen: torch.randn}]
fns: [{name: F, apply: "return [input[0].sum()]", input_dtype: "Buffer(fp32, [N])", output_dtype: fp32, func_name: fn}]
outputs: [{name: S0, dtype: fp32, dims: [M], data_transform: "input_data['E0'].sum(-1)"}]
"""


@pytest.fixture
def task_file(tmp_path: Path) -> str:
    path = tmp_path / "double.yaml"
    path.write_text(TASK)
    return str(path)


def run(*argv: str) -> int:
    return run_command(verify.NAME, verify.main, argv)


def test_a_right_program_passes(task_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From a file, as text and as JSON."""
    program = tmp_path / "program.txt"
    program.write_text(RIGHT)
    assert run(task_file, str(program)) == 0
    assert capsys.readouterr() == (f"{program}: passed\n", "")
    assert run(task_file, str(program), "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["schema"], result["command"], result["task"]) == (2, "verify", "double")
    assert (result["passed"], result["stage"], result["diagnostics"], result["warnings"]) == (True, None, [], [])


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
    """Every diagnostic has code, message, span and hint."""
    monkeypatch.setattr("sys.stdin", io.StringIO("E1 = step.Zip().apply((E0, E0))\nreturn E1"))
    assert run(task_file, "-", "--json") == 1
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert result["passed"] is False
    assert result["stage"] in ("type", "affine", "shape")
    assert result["diagnostics"]
    for diagnostic in result["diagnostics"]:
        assert {"code", "message", "span", "hint"} <= diagnostic.keys()


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


def test_larger_sizes_the_graph_and_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Errors in units of the last place; a slice of the first 200 numbers fails; every node has its line."""
    right, task, graph = tmp_path / "right.step", tmp_path / "task.yaml", tmp_path / "graph.json"
    right.write_text(
        "E1, E2, E3 = step.Copy(n=3).apply(E0)\nreturn step.Map(fn=fn).apply(step.Bufferize(a=1).apply(E2))"
    )
    sums = TASK_OF_ROWS + "original: {N: 300}\n"
    task.write_text(sums)
    script = tmp_path / "test_it.py"
    assert run(str(task), str(right), "--sizes", "original", "--ir", str(graph), "--pytest", str(script)) == 0
    compile(script.read_text(), "script", "exec")
    assert "def test_" in script.read_text() and "pipeline" not in script.read_text(), "it needs the language alone"
    assert "at M=5, N=300: output S0 is off by at most" in capsys.readouterr().out
    ir = json.loads(graph.read_text())
    lines = [(each["primitive"], each["config"], each["line"]) for each in ir["nodes"]]
    assert lines == [("Copy", {}, 1), ("Copy", {}, 1), ("Bufferize", {"a": 1}, 2), ("Map", {"fn": "fn"}, 2)]
    assert ir["streams"][-2]["dtype"] == [{"format": "fp32", "buffer": ["N"], "multihot": None}]
    task.write_text(sums.replace("input[0].sum()", "input[0][:200].sum()"))
    assert run(str(task), str(right), "--sizes", "M=2,N=300", "--json") == 1
    assert json.loads(capsys.readouterr().out)["stage"] == "value"
    assert run(str(task), str(right), "--sizes", "Q=3") == run(str(task), str(right), "--sizes", "Q") == 2


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


WRONG = "return E0"

UNREAD = TASK.replace(
    "data_gen: torch.rand}]", "data_gen: torch.rand}, {name: E9, dtype: fp32, dims: [M], data_gen: torch.rand}]"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "good.yaml").write_text(TASK)
    (tmp_path / "doubtful.yaml").write_text(UNREAD)
    (tmp_path / "broken.yaml").write_text("inputs: 3\n")
    (tmp_path / "right.step").write_text(RIGHT)
    (tmp_path / "wrong.step").write_text(WRONG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_one_bad_file_costs_no_other_its_verdict(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line each in the order of the command line, the findings, the counts; 1 since a program fails."""
    assert run("good.yaml", "right.step", "broken.yaml", "good.yaml", "wrong.step", "good.yaml", "none.step") == 1
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["passed", "unusable", "failed", "unusable"]
    assert "broken.yaml:1: inputs: " in out and "none.step: cannot read the program" in out
    assert lines[-1].startswith("4 programs: 1 passed, 1 failed, 2 unusable in ")


def test_the_exit_code_says_the_worst(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 if every program passes, 2 if none fails but a file can't be used."""
    assert run("good.yaml", "right.step", "doubtful.yaml", "right.step") == 0
    assert run("good.yaml", "right.step", "broken.yaml") == 2


def test_strict_makes_warnings_fail(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a stage of their own; one program or many."""
    assert run("doubtful.yaml", "right.step", "--strict", "--json") == 1
    assert json.loads(capsys.readouterr().out)["stage"] == "warnings"
    assert run("doubtful.yaml", "right.step", "good.yaml", "right.step", "--strict") == 1
    assert "failed    doubtful.yaml right.step: warnings" in capsys.readouterr().out


def test_json_and_junit_agree(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The object validates, and the files count the same."""
    assert (
        run("good.yaml", "right.step", "good.yaml", "wrong.step", "broken.yaml", "--json", "--junit", "junit.xml") == 1
    )
    output = BatchOutput.model_validate_json(capsys.readouterr().out)
    summary = output.summary
    assert (summary.programs, summary.passed, summary.failed, summary.unusable) == (3, 1, 1, 1)
    suite = ElementTree.parse(folder / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")


def test_options_for_one_program_need_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("*.yaml", "--explain") == 2
    assert "--explain: shows one program; name one task" in capsys.readouterr().err


def test_an_unknown_verdict_is_counted_apart(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What differs only where the reference has no numbers: exit code 4, skipped; a program that fails weighs more."""
    zero = (
        "inputs: [{name: E0, dtype: fp32, dims: [M], data_gen: torch.randn}]\n"
        "fns: [{name: f, func_name: fn_f, apply: 'return [input[0] * 2]', input_dtype: fp32, output_dtype: fp32}]\n"
        "outputs: [{name: S, dtype: fp32, dims: [M], data_transform: [\"input_data['E0'] / 0\"]}]\n"
    )
    (folder / "zero.yaml").write_text(zero)
    (folder / "double.step").write_text("return step.Map(fn=fn_f).apply(E0)")
    assert run("zero.yaml", "double.step", "good.yaml", "right.step", "--junit", "junit.xml") == 4
    out = capsys.readouterr().out
    assert "unknown   zero.yaml double.step: value: non-finite-reference" in out
    assert "2 programs: 1 passed, 0 failed, 1 unknown in " in out
    assert ElementTree.parse(folder / "junit.xml").getroot().get("skipped") == "1"
    assert run("zero.yaml", "double.step", "good.yaml", "wrong.step") == 1
    capsys.readouterr()
    assert run("zero.yaml", "double.step", "--json") == 4
    assert json.loads(capsys.readouterr().out)["unknown"] is True
