"""Generating programs holds these.

- What is shown or written as a solution passes the verifier; a task without one gets the best failures, with reasons.
- No more is asked than needed, and what is found does not depend on threads.
- Files are whole or absent, and an existing one is replaced on request only.
- What was verified before a fault or an interrupt is kept.
"""

import json
from pathlib import Path
from typing import Any

import dspy
import pytest

from optimizers import Sampling
from optimizers.sampling import Sampler
from optimizers.sampling_loop import sample_until_solved
from pipeline import generate
from pipeline.actions import generate_programs
from pipeline.agent.agent import Agent
from pipeline.base.errors import run_command
from pipeline.verification.metric import Metric
from step_runtime import verify
from step_runtime.verification.loading import load_task
from tests.support.answering_lm import COMPLETION_TOKENS, PROMPT_TOKENS, Engine
from tests.support.scripted_runs import RIGHT

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
    assert run(names[0]) == 0, "without a folder, it goes to stdout"
    assert capsys.readouterr().out.startswith(
        "double: verified, found by scripted (answer 1, temperature 0.4)\n  fn2 ="
    )


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


def test_a_budget_ends_the_search(engine: Engine, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was verified until then is kept; nothing further is asked."""
    assert run(str(folder / "double.yaml"), str(folder / "halve.yaml"), "--max-tokens-total", "20000", "--json") == 1
    output = capsys.readouterr()
    assert json.loads(output.out)["solved"] == ["double"]
    assert "budget reached: " in output.err
    assert 20000 <= engine.calls * (PROMPT_TOKENS + COMPLETION_TOKENS) < 40000
    assert run(str(folder / "double.yaml"), "--max-tokens-total", "1") == 0


def test_no_more_is_asked_than_needed(engine: Engine, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One answer for what is right at once; all samples only for what is never right; tokens are counted for all."""
    assert run(str(folder / "double.yaml"), str(folder / "halve.yaml"), "--json") == 1
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (result["tasks"]["double"]["answers"], result["tasks"]["halve"]["answers"]) == (1, 16)
    assert engine.calls == 17
    assert result["tokens"] == {"prompt": 17 * PROMPT_TOKENS, "completion": 17 * COMPLETION_TOKENS, "cached": 0}
    assert (result["solved"], result["unsolved"]) == (["double"], ["halve"])


def test_the_answer_found_does_not_depend_on_threads(engine: Engine, folder: Path) -> None:
    """The first that passes, in the order of sampling."""
    task = load_task(folder / "triple.yaml")

    def found(threads: int) -> tuple[float, int]:
        sampler = Sampler(Metric(), Sampling(16, (0.4, 0.7), threads, seed=1))
        with dspy.context(lm=dspy.LM("scripted", engine=engine, cache=False)):
            example = dspy.Example(task=task).with_inputs("task")
            first, *_ = sample_until_solved(Agent("none"), {task.name: example}, sampler).right(task.name)
        return first.temperature, first.sample

    assert found(1) == found(3) == found(8)


def test_what_was_verified_before_the_lm_gave_out_is_kept(
    engine: Engine, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3; where nothing came at all, one line and nothing on stdout."""
    engine.fail_from = 6
    assert run(str(folder / "double.yaml"), str(folder / "halve.yaml"), "-o", str(tmp_path / "out")) == 3
    out, err = capsys.readouterr()
    assert verify(load_task(tmp_path / "out" / "double.yaml")).passed
    assert "halve: no verified program" in out
    assert "the key was revoked; verified programs are kept" in err
    engine.fail_from = 1
    assert run(str(folder / "halve.yaml")) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "the key was revoked" in err


def test_an_interrupt_keeps_what_was_verified(
    engine: Engine, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 130, when Ctrl-C comes as the first task is reported to be solved."""
    reported: list[str] = []

    def interrupt(name: str, message: str) -> None:
        reported.append(message)
        if message == "1 of 2 tasks verified":
            raise KeyboardInterrupt

    for module in (generate_programs, generate):
        monkeypatch.setattr(module, "print_message", interrupt)
    assert run(str(folder / "double.yaml"), str(folder / "halve.yaml"), "-o", str(tmp_path / "out")) == 130
    assert (load_task(tmp_path / "out" / "double.yaml").impl or "").strip() == RIGHT
    assert "verified programs are kept" in reported[-1]
    assert f"warning: stress-run: {generate_programs.UNSTRESSED.message}" in capsys.readouterr().out, (
        "stress inputs are not run any more"
    )
