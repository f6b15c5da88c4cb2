"""Generating programs holds these.

- What is shown or written as a solution passes the verifier; a task without one gets the best failures, with reasons.
- No more is asked than needed, and what is found does not depend on threads.
- Files are whole or absent, and an existing one is replaced on request only.
- What was verified before a fault or an interrupt is kept.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline import generate
from pipeline.base.errors import run_command
from step_runtime import verify
from step_runtime.verification.loading import load_task
from tests.support.answering_lm import COMPLETION_TOKENS, PROMPT_TOKENS, Engine, refuses

READABLE = "fn2 = step.Map(fn=fn).apply(E0)  # fp32 [M]\nreturn fn2\n"
"""The right answer, simplified."""


def run(*argv: str) -> int:
    common = ["--program", "none", "--samples", "8", "--threads", "1", "--temperatures", "0.4,0.7"]
    return run_command(generate.NAME, generate.main, [*argv, *common])


def test_a_solved_task_is_written_as_a_task_that_verifies(
    engine: Engine, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As YAML with its `impl`, and as the program's text, with types as comments; nothing else lies in the folder."""
    out = tmp_path / "new" / "out"
    names = [str(folder / name) for name in ("double.yaml", "triple.yaml")]
    assert run(*names, "-o", str(out), "--format", "both") == 0
    solved = load_task(out / "triple.yaml")
    assert verify(solved).passed
    assert (out / "triple.step").read_text() == READABLE
    assert sorted(path.name for path in out.iterdir()) == ["double.step", "double.yaml", "triple.step", "triple.yaml"]
    assert solved.without_impl() == load_task(folder / "triple.yaml")
    assert str(out / "double.yaml") in capsys.readouterr().out


def test_programs_go_to_stdout_without_a_folder(
    engine: Engine, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(folder / "double.yaml")) == 0
    out = capsys.readouterr().out
    assert out.startswith("double: verified, answer 1, temperature 0.4\n")
    assert all(f"  {line}" in out for line in READABLE.splitlines())


def test_a_task_without_a_solution_gets_its_best_failures(
    engine: Engine, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, nothing written; the furthest stage first, with the program and its diagnostics as rendered."""
    assert run(str(folder / "halve.yaml"), "-o", str(tmp_path / "out")) == 1
    out = capsys.readouterr().out
    assert out.startswith("halve: no verified program\n  16 answers, all wrong\n  they fail at: value ")
    assert out.index("fails at value") < out.index("halve:1:8: name: E7 is not defined")
    assert "halve:1:8: value: output S0 differs from the reference" in out
    assert "      return E7\n             ^^" in out
    assert not (tmp_path / "out").exists()


def test_a_file_that_exists_is_left_alone_unless_forced(
    engine: Engine, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found out before the LM is asked."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "double.yaml").write_text("mine")
    assert run(str(folder / "double.yaml"), "-o", str(out)) == 2
    assert "double.yaml exists; use --force to overwrite" in capsys.readouterr().err
    assert (engine.calls, (out / "double.yaml").read_text()) == (0, "mine")
    assert run(str(folder / "double.yaml"), "-o", str(out), "--force") == 0
    assert load_task(out / "double.yaml").impl == READABLE


def test_bad_usage_is_reported_in_one_line(
    engine: Engine, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and the LM is not asked."""
    (tmp_path / "file").write_text("")
    cases = [
        ((), "TASK"),
        ((str(tmp_path / "none.yaml"),), "no such task"),
        ((str(folder / "double.yaml"), "-o", str(tmp_path / "file")), "is not a folder"),
        ((str(folder / "double.yaml"), "--format", "pdf"), "--format"),
    ]
    for argv, reported in cases:
        refuses(run, argv, reported, capsys)
    assert engine.calls == 0


def test_a_budget_ends_the_search(engine: Engine, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was verified until then is kept; nothing further is asked."""
    assert run(str(folder / "double.yaml"), str(folder / "halve.yaml"), "--max-tokens-total", "60", "--json") == 1
    output = capsys.readouterr()
    assert json.loads(output.out)["solved"] == ["double"]
    assert "budget reached: " in output.err
    assert 60 <= engine.calls * (PROMPT_TOKENS + COMPLETION_TOKENS) < 120
    assert run(str(folder / "double.yaml"), "--max-tokens-total", "1") == 0
