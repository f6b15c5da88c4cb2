"""The main job holds these, on an LM that answers by script and on the embedded one.

- The exit code says how it went: 0 something is solved, 1 nothing is, 2 bad usage or file, 3 no LM, 130 interrupted.
- Results go to stdout, everything else to stderr; `--json` prints one object and nothing else on stdout.
- What is reported is what is on record: the program loads and answers, the run is in the store with its parameters.
- A bad input is found before anything is sampled, and reported in one line.
"""

import json
import re
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy import lm15
from mlflow import MlflowClient

from pipeline import compile as command
from pipeline import load_program, report
from pipeline.base.errors import run_command
from pipeline.record import store
from pipeline.verification.task_files import load_tasks
from step_runtime.verification.loading import load_task
from tests.pipeline.splitting.layers import GATE, NORM, PRODUCT
from tests.pipeline.splitting.layers import TEXT as LAYER
from tests.support import answering_lm as answering
from tests.support.answering_lm import Doubling, run
from tests.support.forked import Forked
from tests.support.scripted_lm import respond
from tests.support.scripted_runs import RIGHT, TASK

pytestmark = pytest.mark.usefixtures("unrendered")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, store_folder: Path) -> Doubling:
    """The LM of every run in the test."""
    engine = Doubling()
    answering.use(engine, monkeypatch)
    return engine


def test_json_is_one_object_with_the_figures_and_its_program_answers(
    engine: Doubling, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program carries the demonstrations that let the LM triple; artifacts have it, and readable solutions."""
    assert run("adaptive", "--tasks", str(folder), "--json", "--temperatures", "0.7") == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert result["solved"] == ["double", "triple"]
    assert result["unsolved"] == ["halve"]
    assert (result["iterations"], result["stopped"]) == (4, "exhausted")
    assert (result["pass_at_1"], result["pass_at_n"]) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert result["tokens"] == {"prompt": engine.calls * 4000, "completion": engine.calls * 20, "cached": 0}
    assert result["seconds"] > 0
    program = load_program(result["program"], lm=dspy.LM("scripted", engine=engine, cache=False))
    assert program(task=load_task(folder / "triple.yaml")).impl == RIGHT
    recorded = MlflowClient(tracking_uri=store.store_uri()).get_run(result["run_id"]).info.artifact_uri
    artifacts = Path(recorded.removeprefix("file://"))
    assert (artifacts / "compiled.json").read_text() == Path(result["program"]).read_text()
    learned = json.loads((artifacts / "experience.json").read_text())["entries"]
    assert [entry["outputs"]["impl"] for entry in learned] == [RIGHT] * 2
    for name in ("double", "triple"):
        solution = load_task(artifacts / "solutions" / f"{name}.yaml").impl or ""
        assert "# fp32 [M]" in solution and len(solution.splitlines()) == len(RIGHT.splitlines()), solution


def test_a_solution_that_falls_on_what_is_held_out_is_on_record_and_not_shown(
    engine: Doubling, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The data are from 0 to 1, so that a function without the sign passes; the run says so."""
    folder = answering.write_tasks(tmp_path / "mine")
    path = folder / "double.yaml"
    path.write_text(path.read_text().replace("[input[0] * 2]", "[input[0].abs() * 2]"))
    assert run("adaptive", "--tasks", str(folder), "--json", "--temperatures", "0.7") == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert result["solved"] == ["double", "triple"]
    assert list(result["held_out"]["fallen"]) == ["double"] and result["held_out"]["proved"] == ["triple"]
    assert "2 solutions judged once more" in err
    shown = json.loads(Path(result["program"]).read_text())["predictors"]["proposer.predict"]["demonstrations"]
    assert [demo["name"] for demo in shown] == ["triple"]
    client = MlflowClient(tracking_uri=store.store_uri())
    metrics = client.get_run(result["run_id"]).data.metrics
    assert (metrics["proved"], metrics["held_out_passed"], metrics["held_out_failed"]) == (1, 1, 1)
    assert metrics["held_out_seconds"] > 0
    recorded = json.loads(Path(client.download_artifacts(result["run_id"], "held_out.json")).read_text())
    assert recorded["solutions"]["double"]["answer"] == "failed"
    assert recorded["quadrants"] == result["held_out"]["quadrants"]


class SolvesParts(Doubling):
    """Solves the sub-tasks of the small layer, each once it was shown a solved one but the first, and not the layer."""

    programs: Mapping[str, str] = {"n": NORM, "gate": GATE, "y": PRODUCT}

    def solves(self, task: str, shown: bool, turn: int) -> bool:
        return "part_of: layer" in task and (shown or self.right(task) == NORM)

    def right(self, task: str) -> str:
        found = re.search(r"outputs:\s*- name: (\w+)", task)
        return self.programs.get(found[1] if found else "", "")


def test_with_split_a_layer_is_solved_by_its_subtasks_and_the_record_says_when(
    engine: Doubling, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The origin of the layer's program is on record; a run that was cut short goes on with the same sub-tasks."""
    answering.use(SolvesParts(), monkeypatch)
    (tmp_path / "layer.yaml").write_text(LAYER)
    options = ["--tasks", str(tmp_path / "layer.yaml"), "--split", "--json", "--temperatures", "0.7"]
    assert run("adaptive", *options, "--max-iterations", "2") == 1
    cut = json.loads(capsys.readouterr().out)
    assert cut["unsolved"] == ["layer"] and cut["subtasks"] == {"layer.n": True, "layer.gate": False, "layer.y": False}
    assert run_command(command.NAME, command.main, ["--resume", cut["run_id"], "--max-iterations", "9", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["composed"] == {"layer": ["layer.n", "layer.gate", "layer.y"]} and result["solved"] == ["layer"]
    client = MlflowClient(tracking_uri=store.store_uri())
    recorded = client.get_run(result["run_id"])
    assert [recorded.data.metrics[name] for name in ("subtasks_solved", "tasks_composed")] == [3, 1]
    artifacts = Path(recorded.info.artifact_uri.removeprefix("file://"))
    table = json.loads((artifacts / "subtasks.json").read_text())
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert [(row["sub-task"], row["serves"], row["entered"], row["solved"], row["composed"]) for row in rows[:3]] == [
        ("layer.n", "layer", 2, 2, True), ("layer.gate", "layer", 2, 3, True), ("layer.y", "layer", 2, 3, True),
    ]  # fmt: skip
    assert load_task(artifacts / "subtasks" / "layer.n.yaml").impl is not None
    assert load_task(artifacts / "solutions" / "layer.yaml").impl is not None
    assert run_command(report.NAME, report.main, [result["run_id"], "-o", str(tmp_path / "page")]) == 0
    assert run("none", *options) == 2 and "--split: `none` does not learn from sub-tasks" in capsys.readouterr().err


@pytest.mark.slow
def test_with_split_the_embedded_lm_solves_attention_by_its_subtasks(
    store_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No sample of the whole is right, and the answers to its eight sub-tasks are composed."""
    argv = ["--optimizer", "adaptive", "--tasks", "data/tasks-layers/blocks/attention.yaml", "--split", "--json"]
    argv += ["--samples", "2", "--temperatures", "0.4", "--max-iterations", "6"]
    assert run_command(command.NAME, command.main, argv) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["solved"] == ["blocks/attention"] and result["pass_at_1"] == 0
    parts = result["composed"]["blocks/attention"]
    assert len(parts) == 8 and all(result["subtasks"][part] for part in parts)


def test_the_run_is_on_record_with_what_is_needed_to_repeat_it(
    engine: Doubling, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options, tasks and their digest, versions, and the command itself."""
    assert run("none", "--tasks", str(folder / "double.yaml"), "--json", "--seed", "7") == 0
    run_id = json.loads(capsys.readouterr().out)["run_id"]
    recorded = MlflowClient(tracking_uri=store.store_uri()).get_run(run_id)
    assert recorded.info.run_name == "none embedded 2 samples seed 7 1 task"
    params = recorded.data.params
    expected = {"optimizer": "none", "samples": "2", "temperatures": "0.4,0.7,1.0", "seed": "7", "guardian": "gated"}
    assert expected.items() <= params.items()
    assert params["tasks"] == "double"
    reported = recorded.data.tags["command"]
    assert reported.startswith("python -m pipeline.compile --optimizer none --tasks ") and "command" not in params
    assert {"task_set_digest", "code_version", "dspy", "mlflow", "torch", "python", "lm"} <= params.keys()


def test_the_summary_shows_tasks_program_and_the_command_for_the_ui(
    engine: Doubling, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stdout; the table of iterations is on stderr."""
    program = tmp_path / "out.json"
    assert run("adaptive", "--tasks", str(folder), "-o", str(program), "--temperatures", "0.7") == 0
    out, err = capsys.readouterr()
    assert program.exists()
    rows = [line.split() for line in out.splitlines()]
    assert ["double", "2", "of", "2", "0.7", "1"] in rows
    assert ["halve", "none", "unsolved"] in rows
    assert "solved 2 of 3 tasks" in out
    assert str(program) in out
    assert "python -m pipeline.ui" in out
    assert "iteration" in err
    assert "2: H_1" in err


def test_an_lm_that_never_answers_is_exit_code_3(
    engine: Doubling, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, nothing on stdout."""
    engine.fail_from = 1
    assert run("adaptive", "--tasks", str(folder)) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "the key was revoked" in err.splitlines()[-1]
    assert "Traceback" not in err


def test_bad_usage_and_bad_files_are_reported_in_one_line(
    engine: Doubling, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and the LM is not asked."""
    broken = tmp_path / "broken.yaml"
    broken.write_text(TASK.replace("dtype: fp32", "dtype: fp31", 1))
    twice = tmp_path / "again"
    twice.mkdir()
    (twice / "double.yaml").write_text(TASK)
    cases = [
        (("best",), "argument --optimizer: invalid choice: 'best'"),
        (("adaptive", "--tasks", str(broken)), "broken.yaml:2: inputs[0].dtype"),
        (("adaptive", "--tasks", str(tmp_path / "none")), "no such task"),
        (("adaptive", "--tasks", ""), "no such task"),
        (("adaptive", "--tasks", str(folder / "double.yaml"), str(twice)), "a second task named 'double'"),
        (("adaptive", "-o", str(tmp_path / "no" / "x.json")), "--output: there is no folder"),
        (("adaptive", "-o", str(tmp_path)), "--output: can't write the file"),
    ]
    for argv, reported in cases:
        answering.refuses(run, argv, reported, capsys)
    assert engine.calls == 0


def test_patterns_and_names_choose_tasks(folder: Path, tmp_path: Path) -> None:
    """A pattern, a benchmark name and a file beside each other; the same file twice counts once.

    Files of one name below a folder that is named are told apart by their paths there.
    """
    chosen = [str(folder / "*ble.yaml"), str(folder / "double.yaml"), "gemm/1"]
    assert sorted(task.name for task in load_tasks(chosen)) == ["double", "gemm/1"]
    for place in ("generated/l3", "generated/l4"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "0.yaml").write_text((folder / "double.yaml").read_text())
    assert [task.name for task in load_tasks([str(tmp_path / "generated")])] == ["l3/0", "l4/0"]


def test_ctrl_c_ends_a_real_run_cleanly(store_folder: Path) -> None:
    """The embedded LM: exit code 130, a summary, a program that loads, no traceback."""
    options = ("--optimizer", "adaptive", "--tasks", "gemm/*", "--samples", "5000", "--json")
    with Forked("-m", "pipeline.compile", *options) as process:
        deadline = time.monotonic() + 600
        while not list((store_folder / "running").glob("*/iterations/01_None/attempts.jsonl")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        attempts = next((store_folder / "running").glob("*/iterations/01_None/attempts.jsonl"))
        while attempts.stat().st_size < 1000 and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 130, err
    result = json.loads(out)
    assert result["stopped"] == "interrupted"
    assert result["tokens"]["prompt"] > 0
    assert "the results so far are kept" in err
    assert "Traceback" not in err
    load_program(result["program"])
    assert MlflowClient(tracking_uri=store.store_uri()).get_run(result["run_id"]).info.status == "KILLED"


def test_with_an_objective_the_record_has_the_cost_of_the_best_answers(
    engine: Doubling, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Solved tasks are sampled until the budget, and the share of tasks within the bound is a metric."""
    options = ("--temperatures", "0.7", "--objective", "traffic", "--max-iterations", "2")
    assert run("adaptive", "--tasks", str(folder), "--json", *options) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["iterations"], result["stopped"]) == (2, "budget")
    assert result["costs"].keys() == set(result["solved"])
    client = MlflowClient(tracking_uri=store.store_uri())
    recorded = json.loads(Path(client.download_artifacts(result["run_id"], "costs.json")).read_text())
    assert recorded["objective"] == "traffic"
    assert all(each["cost"] >= each["at_least"] for each in recorded["tasks"].values())
    metrics = client.get_run(result["run_id"]).data.metrics
    assert metrics["within_1"] == pytest.approx(len(result["solved"]) / 3)
    assert metrics["cost/double"] == result["costs"]["double"]


FOLD = """
inputs:
  - {name: E0, dtype: fp32, dims: [M, N], data_gen: torch.randn}
fns:
  - {name: Fold, apply: "return [torch.maximum(state[0], input[0])]", init: [-inf], input_dtype: fp32,
     output_dtype: fp32, func_name: fn_fold}
  - {name: Minus, apply: "return [input[0] - input[1]]", input_dtype: [fp32, fp32], output_dtype: fp32,
     func_name: fn_minus}
outputs:
  - {name: S0, dtype: fp32, dims: [M, N], data_transform: ["input_data['E0'] - input_data['E0'].amax(1, keepdim=True)"]}
"""
CHEAP = """E1, E2 = step.Copy().apply(E0)
E3 = step.Accum(fn=fn_fold, b=1).apply(E1)
E4 = step.Repeat(n=M).apply(E3)
E5 = step.Zip().apply((E2, E4))
E6 = step.Map(fn=fn_minus).apply(E5)
return E6"""
DEAR = CHEAP.replace("(E0)", "(E0)\nE7, E8 = step.Copy().apply(E2)").replace("((E2,", "((E7,")
DEAR = DEAR.replace("Repeat(n=M).apply(E3)", "RepeatRef().apply((E3, E8))")


class Imitator(Doubling):
    """Writes cheap programs where it is shown a dearer one beside one; alone, one of them for one task."""

    def complete(self, request: lm15.Request) -> lm15.Response:
        *shown, asked = [message.text or "" for message in request.messages]
        lucky = "maximum" in asked and (request.config.seed or 0) % 2 == 0
        program = CHEAP if lucky or any("[[ ## dearer ## ]]" in text for text in shown) else DEAR
        self.calls += "fewest bytes held" in str(request.system)
        return respond(request, f"[[ ## impl ## ]]\n{program}", answering.USAGE)


def test_programs_get_cheaper_where_a_saving_is_shown(
    tmp_path: Path, store_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All tasks are solved at once; the control samples as often. The LM is told the objective in each request."""
    (mine := tmp_path / "mine").mkdir()
    (mine / "largest.yaml").write_text(FOLD)
    (mine / "least.yaml").write_text(FOLD.replace("maximum", "minimum").replace("-inf", "inf").replace("max", "min"))
    curves = {}
    for selection in ("savings", "resample"):
        answering.use(engine := Imitator(), monkeypatch)
        options = ("--objective", "memory", "--max-iterations", "3", "--temperatures", "0.7", "--selection", selection)
        assert run("adaptive", "--tasks", str(mine), "--json", *options) == 0
        result = json.loads(capsys.readouterr().out)
        assert engine.calls == 12
        client = MlflowClient(tracking_uri=store.store_uri())
        curve = client.get_metric_history(result["run_id"], "cost_of_first")
        curves[selection] = [round(point.value, 2) for point in curve], result["costs"]
    assert curves["savings"] == ([1.0, 1.0, 0.8], {"largest": 24, "least": 24})  # the luck is in the second pass
    assert curves["resample"] == ([1.0, 1.0, 1.0], {"largest": 24, "least": 40})
