"""Evaluating a program holds these.

- The figures are those that follow from the answers: counts, pass@k, groups, classes, diversity, tokens.
- The program is sampled as it is, with the demonstrations that it carries.
- Figures are an answer, whatever they are: exit code 0; a fault is one line and a code of its own.
"""

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
from tests.support.answering_lm import ANSWER_TOKENS, COMPLETION_TOKENS, PROMPT_TOKENS, Engine, refuses
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


def test_the_figures_follow_from_the_answers(engine: Engine, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Counts, pass@k and tokens of the three tasks; an own file has no class and the group `own`; no record."""
    assert run("--program", "none", "--tasks", str(folder), "--temperatures", "0.7", "--json") == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert result["run_id"] is None
    by_task = result["by_task"]
    assert (by_task["double"]["correct"], by_task["double"]["samples"], by_task["double"]["class"]) == (4, 4, None)
    c = by_task["triple"]["correct"]
    assert 0 < c < 4, "the script solves some"
    assert (by_task["halve"]["correct"], by_task["halve"]["pass_at_n"]) == (0, 0)
    assert result["pass_at_1"] == pytest.approx((1 + c / 4) / 3)
    assert result["pass_at_n"] == result["pass_at_8"] == pytest.approx(2 / 3)
    assert (result["solved"], result["unsolved"]) == (["double", "triple"], ["halve"])
    assert result["by_group"]["own"]["pass_at_1"] == result["pass_at_1"]
    assert result["by_class"] == {}
    assert engine.calls == 12 == result["answers"]
    assert result["tokens"] == {"prompt": 12 * PROMPT_TOKENS, "completion": 12 * COMPLETION_TOKENS, "cached": 0}
    assert result["tokens_by_module"]["proposer.predict"]["calls"] == 12


def test_the_table_shows_groups_classes_and_tasks(
    engine: Engine, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Benchmark tasks beside own ones."""
    assert run("--program", "none", "--tasks", str(folder / "double.yaml"), "gemm/1", "--temperatures", "0.7") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["gemm", "1", "0", "0.000", "0.000"] in rows
    assert ["own", "1", "1", "1.000", "1.000"] in rows
    assert ["S1", "1", "0", "0.000", "0.000"] in rows
    assert ["all", "2", "1", "0.500", "0.500"] in rows
    assert ["double", "4", "of", "4", "0.7", "1.000", "1"] in rows


def test_record_leaves_a_run_in_the_store(engine: Engine, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """When asked for, and with what is needed to repeat it."""
    assert run("--program", "none", "--tasks", str(folder), "--json", "--record") == 0
    result = json.loads(capsys.readouterr().out)
    recorded = MlflowClient(tracking_uri=store.store_uri()).get_run(result["run_id"])
    assert recorded.data.metrics["pass_at_n"] == pytest.approx(result["pass_at_n"])
    assert {"program": "none", "samples": "4", "guardian": "gated"}.items() <= recorded.data.params.items()


def test_an_lm_that_gives_out_leaves_the_figures_until_then(
    engine: Engine, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3 and a message; where nothing came, the error alone on stdout."""
    engine.fail_from = 9
    assert run("--program", "none", "--tasks", str(folder), "--json") == 3
    out, err = capsys.readouterr()
    assert json.loads(out)["without_answer"] >= 1
    assert "the key was revoked; the figures above cover the answers so far" in err
    engine.fail_from = 1
    assert run("--program", "none", "--tasks", str(folder), "--json") == 3
    out, err = capsys.readouterr()
    assert (json.loads(out)["error"]["kind"], json.loads(out)["error"]["exit_code"]) == ("lm", 3)
    assert "the key was revoked" in err.splitlines()[-1]


def test_bad_usage_is_reported_in_one_line(
    engine: Engine, folder: Path, compiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and the LM is not asked."""
    cases = [
        ((), "--program"),
        (("--program", str(tmp_path / "no.json")), "no.json: there is no such file"),
        (("--program", str(folder / "double.yaml")), "expected a compiled program in JSON"),
        (("--program", str(compiled), "--guardian", "paper"), "this program was compiled with none"),
        (("--program", str(compiled), "--refine", "2"), "--refine: this program was compiled with 0; omit the option"),
        (("--program", "none", "--tasks", str(tmp_path / "none")), "no such task"),
        (("--program", "models:/"), "models:/: cannot read the program"),
    ]
    for argv, reported in cases:
        refuses(run, ("--tasks", str(folder / "double.yaml"), *argv), reported, capsys)
    assert engine.calls == 0


def test_a_budget_ends_the_pass(engine: Engine, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The figures are of what was done until then, and stderr says so."""
    budget = ["--max-tokens-total", str(4 * ANSWER_TOKENS), "--temperatures", "0.7"]
    assert run("--program", "none", "--tasks", str(folder), "--guardian", "none", "--json", *budget) == 0
    output = capsys.readouterr()
    assert 4 <= json.loads(output.out)["answers"] < 12
    assert "budget reached: " in output.err


def test_each_task_is_shown_its_own_choice_of_what_a_run_solved(
    engine: Engine, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that chooses per task writes its solutions; the record and both commands say which were shown, and why."""
    common = ["--samples", "4", "--threads", "2", "--temperatures", "0.7", "--json"]
    program, tasks = str(tmp_path / "c.json"), [str(folder / f"{name}.yaml") for name in ("double", "halve")]
    learning = ["--optimizer", "adaptive", "--selection", "coverage", "--max-iterations", "2", "--tasks", *tasks]
    assert run_command(compiling.NAME, compiling.main, [*learning, "-o", program, *common]) == 0
    capsys.readouterr()
    argv = ["--program", program, *common]
    assert run_command(evaluate.NAME, evaluate.main, [*argv, "--record", "--tasks", str(folder)]) == 0
    out, err = capsys.readouterr()
    shown = {name: list(each["demonstrations"]) for name, each in json.loads(out)["by_task"].items()}
    assert shown == {"double": [], "triple": ["double"], "halve": ["double"]}
    assert json.loads(out)["by_task"]["triple"]["correct"] == 4
    assert "each task is shown its own choice of 1 solved task" in err
    client, run_id = MlflowClient(tracking_uri=store.store_uri()), json.loads(out)["run_id"]
    (iteration,) = [each.path for each in client.list_artifacts(run_id, "iterations")]
    assert f"{iteration}/selection.yaml" in [each.path for each in client.list_artifacts(run_id, iteration)]
    run_command(generate.NAME, generate.main, [str(folder / "triple.yaml"), *argv])
    assert list(json.loads(capsys.readouterr().out)["tasks"]["triple"]["demonstrations"]) == ["double"]
