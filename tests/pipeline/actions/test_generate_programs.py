"""Generating requests no more than it needs, and keeps what was verified."""

from __future__ import annotations

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


def run(*argv: str) -> int:
    common = ["--program", "none", "--samples", "8", "--threads", "1", "--temperatures", "0.4,0.7"]
    return run_command(generate.NAME, generate.main, [*argv, *common])


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
            answer = sample_until_solved(Agent("none"), {task.name: example}, sampler).found(task.name)
        assert answer is not None
        return answer.temperature, answer.sample

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
    assert load_task(tmp_path / "out" / "double.yaml").impl == RIGHT
    assert "verified programs are kept" in reported[-1]
    assert f"warning: {generate_programs.UNSTRESSED}" in capsys.readouterr().out, "stress inputs are not run any more"
