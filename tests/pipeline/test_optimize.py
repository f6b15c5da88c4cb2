"""`pipeline.optimize` prints the cheapest program, or the verdict on a wrong one."""

import json
from pathlib import Path
from typing import get_args

import pytest

from pipeline import cost, optimize
from pipeline.base import settings
from pipeline.base.errors import run_command
from step_runtime.base.units import FIGURES
from tests.step_runtime.rewriting.test_optimizing import NEEDLESS
from tests.support.task_texts import LOG_SUM_EXP


def run(*argv: str) -> int:
    return run_command(optimize.NAME, optimize.main, argv)


@pytest.fixture
def needless(tmp_path: Path) -> str:
    path = tmp_path / "needless.step"
    path.write_text(NEEDLESS)
    return str(path)


def test_the_program_goes_to_stdout_and_the_report_to_stderr(needless: str, capsys: pytest.CaptureFixture[str]) -> None:
    """So that it can be piped on."""
    assert run("norm/2", needless) == 0
    out, err = capsys.readouterr()
    assert out.startswith("E1, E2 = step.Copy().apply(E0)\n") and "Bufferize" not in out
    assert "memory" in err and "rewrites: drop a round trip" in err


def test_a_file_and_json(needless: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out.step"
    options = ["--objective", "operations", "-o", str(output), "--json"]
    assert run("norm/2", needless, *options) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["program"] == output.read_text()
    assert found["after"]["operations"] < found["before"]["operations"]
    assert found["programs"] <= 40 and found["refused"] == 0


def test_a_program_that_nothing_makes_cheaper_stays_as_its_author_wrote_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its names, comments and layout; a needless Copy is left out all the same."""
    own = tmp_path / "own.step"
    text = "# online\nmine = step.Accum(fn=fn_sum, b=1).apply(E0)  # a sum\n\nreturn mine\n"
    task = tmp_path / "sum.yaml"
    fn = "{name: S, apply: 'return [state[0] + input[0]]', init: [0], input_dtype: fp32, output_dtype: fp32"
    task.write_text(
        "inputs: [{name: E0, dtype: fp32, dims: [N, M], data_gen: torch.rand}]\n"
        f"fns: [{fn}, func_name: fn_sum}}]\n"
        "outputs: [{name: S0, dtype: fp32, dims: [M], data_transform: [\"input_data['E0'].sum(-1)\"]}]\n"
    )
    own.write_text(text)
    assert run(str(task), str(own)) == 0
    out, err = capsys.readouterr()
    assert out == text and "none; no cheaper program was found" in err
    own.write_text(text.replace("apply(E0)", "apply(step.Copy().apply(E0)[0])"))
    assert run(str(task), str(own)) == 0
    assert "Copy" not in capsys.readouterr().out


def test_a_wrong_program_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wrong.step"
    path.write_text("return E0")
    assert run("norm/2", str(path)) == 1
    out, err = capsys.readouterr()
    assert out == "" and "differs from the reference" in err


def test_the_figures_to_choose_from_are_those_of_a_cost() -> None:
    """They are written twice, as one place is quick to import."""
    assert get_args(settings.Figure) == FIGURES


@pytest.mark.filterwarnings("ignore:.*N is 3 at every set of sizes")
def test_what_is_to_be_warned_of_is_in_the_report_and_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the task, and in the program found, as `verify` says it; `cost` has the task's warnings."""
    task, program = tmp_path / "lse.yaml", tmp_path / "lse.step"
    task.write_text(LOG_SUM_EXP)
    program.write_text(
        "E1 = step.Map(fn=fn_exp).apply(E0)\nE2 = step.Accum(fn=fn_sum, b=1).apply(E1)\n"
        "return step.Map(fn=fn_log).apply(E2)\n"
    )
    assert run(str(task), str(program)) == 0
    assert "warning: stress-overflow: output S0" in capsys.readouterr().err
    assert run(str(task), str(program), "--json") == 0
    of_task, of_program = json.loads(capsys.readouterr().out)["warnings"]
    assert (of_task["code"], of_program["code"]) == ("fixed-dim", "stress-overflow")
    assert run_command(cost.NAME, cost.main, [str(task), str(program), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == [of_task]
