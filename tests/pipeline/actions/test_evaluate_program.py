"""A program is measured as it is, with the same figures for one seed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dspy
import pytest
from mlflow import MlflowClient

from pipeline import compile as compiling
from pipeline import evaluate, generate, save_program
from pipeline.agent.agent import Agent
from pipeline.base.errors import run_command
from pipeline.record import store
from step_runtime.verification.loading import load_task
from tests.support.answering_lm import Engine
from tests.support.scripted_runs import RIGHT

pytestmark = pytest.mark.usefixtures("unrendered")


@pytest.fixture
def compiled(folder: Path, tmp_path: Path) -> Path:
    """A program that shows how to double."""
    agent = Agent("none")
    demo = dspy.Example(task=load_task(folder / "double.yaml"), impl=RIGHT)
    agent.proposer.predict.demos = [demo]
    path = tmp_path / "compiled.json"
    save_program(agent, path)
    return path


def run(*argv: str) -> int:
    return run_command(evaluate.NAME, evaluate.main, [*argv, "--samples", "4", "--threads", "2"])


def test_a_program_keeps_its_demonstrations(
    engine: Engine, folder: Path, compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The LM triples every time once it is shown how to double."""
    argv = ("--program", str(compiled), "--tasks", str(folder / "triple.yaml"), "--json")
    assert run(*argv) == 0
    assert json.loads(capsys.readouterr().out)["pass_at_1"] == 1


def test_each_task_is_shown_its_own_choice_of_what_a_run_solved(
    engine: Engine, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that chooses per task writes its solutions; the record and both commands say which were shown, and why."""
    common = ["--samples", "4", "--threads", "2", "--temperatures", "0.7", "--json"]
    program, tasks = str(tmp_path / "c.json"), [str(folder / f"{name}.yaml") for name in ("double", "halve")]
    learning = ["--optimizer", "adaptive", "--selection", "similar", "--max-iterations", "2", "--tasks", *tasks]
    assert run_command(compiling.NAME, compiling.main, [*learning, "-o", program, *common]) == 0
    capsys.readouterr()
    for options, right, demonstrations in (([], 4, ["double"]), (["--max-demos", "0"], 1, [])):
        argv = ["--program", program, *common, *options]
        assert run_command(evaluate.NAME, evaluate.main, [*argv, "--record", "--tasks", str(folder)]) == 0
        out, err = capsys.readouterr()
        shown = {name: list(each["demonstrations"]) for name, each in json.loads(out)["by_task"].items()}
        assert shown == {"double": [], "triple": demonstrations, "halve": demonstrations}
        assert json.loads(out)["by_task"]["triple"]["correct"] == right
        assert "each task is shown its own choice of 1 solved task, by `similar`" in err
        client, run_id = MlflowClient(tracking_uri=store.store_uri()), json.loads(out)["run_id"]
        (iteration,) = [each.path for each in client.list_artifacts(run_id, "iterations")]
        assert f"{iteration}/selection.yaml" in [each.path for each in client.list_artifacts(run_id, iteration)]
        run_command(generate.NAME, generate.main, [str(folder / "triple.yaml"), *argv])
        found = json.loads(capsys.readouterr().out)["tasks"]["triple"]
        assert list(found["demonstrations"]) == demonstrations


def test_the_same_seed_gives_the_same_figures_whatever_the_threads(
    engine: Engine, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def figures(threads: str) -> dict[str, Any]:
        argv = ["--program", "none", "--tasks", str(folder), "--json", "--samples", "4", "--threads", threads]
        assert run_command(evaluate.NAME, evaluate.main, argv) == 0
        return json.loads(capsys.readouterr().out) | {"seconds": 0}

    assert figures("1") == figures("5")


@pytest.mark.parametrize(
    ("option", "reported"),
    [
        (["--refine", "2"], "--refine: this program was compiled with 0; omit the option"),
        (["--proposer", "cot"], "--proposer: this program was compiled with predict"),
        (["--no-ir"], "--no-ir: this program was compiled with the structural IR"),
    ],
)
def test_a_compiled_program_is_asked_as_it_is(
    engine: Engine, compiled: Path, option: list[str], reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it says of itself can't be changed; saying the same is no contradiction."""
    assert run("--program", str(compiled), *option) == 2
    assert reported in capsys.readouterr().err
    assert engine.calls == 0


def test_an_uncompiled_agent_is_made_as_the_options_say(
    engine: Engine, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Repairs are drawn and counted under their own name, and make no further answers."""
    options = ["--guardian", "none", "--refine", "1", "--no-ir", "--temperatures", "0.7", "--json"]
    assert run("--program", "none", "--tasks", str(folder / "halve.yaml"), *options) == 0
    result = json.loads(capsys.readouterr().out)
    calls = {name: module["calls"] for name, module in result["tokens_by_module"].items()}
    assert calls == {"proposer.predict": 4, "refiner.predict": 4}
    assert (result["answers"], result["solved"]) == (4, [])
