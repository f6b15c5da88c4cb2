"""`pipeline.generate --proposer search` holds these.

- It needs no program and no LM, and takes no option that only they use.
- What it writes verifies; what it does not find, it says so of, with the reason and exit code 1.
- A function that never returns costs its task alone.
- Commands that measure pass@k refuse it, and say where it is to be had.
"""

import json
from pathlib import Path

import pytest

from pipeline import compile as compile_command
from pipeline import evaluate, generate
from pipeline.base.errors import run_command
from step_runtime import verify
from step_runtime.verification.loading import load_task


def run(*argv: str) -> int:
    return run_command(generate.NAME, generate.main, [*argv, "--proposer", "search"])


def test_a_task_is_solved_without_an_lm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Written as a task that verifies; the result reports what the search did."""
    assert run("gemm/1", "-o", str(tmp_path), "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["solved"] == ["gemm/1"] and printed["tasks"]["gemm/1"]["search"]["candidates"] > 0
    assert verify(load_task(tmp_path / "gemm" / "1.yaml")).passed


def test_what_is_not_found_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With exit code 1, the reason, and no file."""
    assert run("gemm/1", "norm/1", "--max-candidates", "100", "-o", str(tmp_path), "--format", "text") == 1
    out = capsys.readouterr().out
    assert "gemm/1: verified" in out
    assert "norm/1: no verified program" in out and "raise --max-candidates" in out
    assert [path.name for path in tmp_path.rglob("*.*")] == ["1.step"]


@pytest.mark.parametrize("option", ["--program none", "--lm embedded", "--samples 3", "--seed 1"])
def test_options_of_an_lm_are_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They would do nothing."""
    assert run("gemm/1", *option.split()) == 2
    assert f"{option.split()[0]}: `--proposer search` does not use an LM" in capsys.readouterr().err


def test_candidates_and_programs_belong_to_one_proposer_each(capsys: pytest.CaptureFixture[str]) -> None:
    """A single proposer other than `search` needs a program, and does not count candidates."""
    assert run_command(generate.NAME, generate.main, ["gemm/1", "--proposer", "cot"]) == 2
    assert "--program" in capsys.readouterr().err
    argv = ["gemm/1", "--program", "none", "--max-candidates", "5"]
    assert run_command(generate.NAME, generate.main, argv) == 2
    assert "--max-candidates: only a search counts candidates" in capsys.readouterr().err


def test_commands_that_measure_pass_at_k_refuse_it(capsys: pytest.CaptureFixture[str]) -> None:
    """As a bad option, in one line that names the command that has it."""
    for command, argv in ((compile_command, ["--optimizer", "none"]), (evaluate, ["--program", "none"])):
        assert run_command(command.NAME, command.main, [*argv, "--proposer", "search"]) == 2
        message = capsys.readouterr().err
        assert "pass@k" in message and "pipeline.generate" in message and message.count("\n") == 1
