"""A sweep resumes what was interrupted, leaves alone what runs elsewhere, and matches runs to the tokens of others."""

import json
from pathlib import Path

import pytest

from pipeline import sweep as command
from pipeline.actions import run_sweep as action
from pipeline.actions.run_sweep import figures, run_key
from pipeline.base.config import RunConfig
from pipeline.base.errors import Exit, run_command
from pipeline.record import store
from pipeline.record.request import Request
from tests.support.answering_lm import ANSWER_TOKENS, Engine
from tests.support.scripted_runs import tasks

pytestmark = pytest.mark.usefixtures("unrendered")

SPEC = """\
base:
  {{optimizer: adaptive, lm: scripted, samples: 4, temperatures: [1.0], threads: 1, tasks: [{tasks}/double.yaml]}}
sweep: {{granularity: [1], seed: [0, 1]}}
"""


@pytest.fixture
def spec(folder: Path, tmp_path: Path) -> Path:
    (path := tmp_path / "levels.yaml").write_text(SPEC.format(tasks=folder))
    return path


def run(spec: Path) -> int:
    return run_command(command.NAME, command.main, [str(spec)])


def test_an_interrupted_sweep_is_resumed(engine: Engine, spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A seed is added, and the LM fails in its run: the first is unchanged, no answer is requested again."""
    whole = spec.read_text()
    spec.write_text(whole.replace("[0, 1]", "[0]"))
    assert run(spec) == Exit.OK
    calls, engine.fail_from = engine.calls, engine.calls + 3
    spec.write_text(whole)
    assert run(spec) == Exit.LM
    assert [each["status"] for each in figures(action.open_sweep(spec))["runs"]] == ["FINISHED", "FAILED"]
    done, engine.fail_from, engine.calls = engine.fail_from - 1, 1_000_000, 0
    capsys.readouterr()
    assert run(spec) == Exit.OK
    assert engine.calls == 2 * calls - done
    err = capsys.readouterr().err
    assert "run 1 of 2: granularity=1, seed=0" in err and " has finished" in err and "resumes with" in err
    result = figures(action.open_sweep(spec))
    (configuration,) = result["configurations"]
    assert (configuration["runs"], configuration["figures"]["solved"]["mean"]) == (2, 1)
    client, experiment = store.open_store()
    view = client.get_experiment(experiment).tags[f"mlflow.sharedViewState.{result['address'].rpartition('=')[2]}"]
    assert json.loads(view)["searchFilter"] == "params.sweep = 'levels'"


MATCHED = """\
base: {{optimizer: adaptive, lm: scripted, samples: 4, temperatures: [1.0], threads: 1, tasks: [{tasks}]}}
sweep:
  selection: [resample, adaptive]
  seed: [0, 1]
compare: {{selection: resample}}
match_tokens: {{selection: adaptive}}
"""


def test_what_runs_elsewhere_is_left_alone(
    engine: Engine, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So is the run that is matched to it; the others are made, and exit code 1 says that the sweep is not complete."""
    (spec := tmp_path / "learning.yaml").write_text(MATCHED.format(tasks=folder / "double.yaml"))
    engine.fail_from = 3
    assert run(spec) == Exit.LM
    engine.fail_from = 1_000_000
    (recorded,) = action.recorded(action.open_sweep(spec)).values()
    client, _ = store.open_store()
    client.update_run(recorded.info.run_id, status="RUNNING")
    capsys.readouterr()
    assert run(spec) == Exit.NO
    out, err = capsys.readouterr()
    assert f"run {recorded.info.run_id[:8]} is still running: process " in err
    assert "waits for its matched run to finish" in err and "selection=adaptive  " in out
    assert [each["runs"] for each in figures(action.open_sweep(spec))["configurations"]] == [1, 1]


def test_runs_are_matched_to_the_tokens_of_another_and_compared_seed_by_seed(
    engine: Engine, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The control runs last, spends what the other spent, shows nothing, and `triple` needs what is shown.

    The dry run before has as many runs to make, the one afterwards none.
    """
    (spec := tmp_path / "learning.yaml").write_text(MATCHED.format(tasks=folder))
    assert run_command(command.NAME, command.main, [str(spec), "--dry-run", "--json"]) == Exit.OK
    bounds = json.loads(capsys.readouterr().out)["configurations"]
    assert {name: found["runs"] for name, found in bounds.items()} == {"selection=resample": 2, "selection=adaptive": 2}
    assert engine.calls == 0
    assert run_command(command.NAME, command.main, [str(spec), "-o", str(tmp_path / "curve.png")]) == Exit.OK
    out, err = capsys.readouterr()
    assert err.index("run 1 of 4: selection=adaptive, seed=0") < err.index("run 3 of 4: selection=resample, seed=0")
    assert "seed by seed" in out and "± is half" in out
    sweep = action.open_sweep(spec)
    runs = {tuple(each["values"].values()): each for each in figures(sweep)["runs"]}
    for seed in (0, 1):
        control, learner = runs["resample", seed]["curve"], runs["adaptive", seed]["curve"]
        assert control[0] == {"samples": 0, "tokens": 0, "solved": 0}
        assert 0 <= control[-1]["tokens"] - learner[-1]["tokens"] < 2 * ANSWER_TOKENS, "all but an answer on its way"
        assert len(control) > 2, "it samples again"
    params = [run.data.params for run in action.recorded(sweep).values()]
    assert sum("match_tokens" in each for each in params) == 2
    assert run_command(command.NAME, command.main, [str(spec), "--dry-run"]) == Exit.OK
    assert "0 to 0" in capsys.readouterr().out


def test_a_key_is_of_what_the_answers_depend_on() -> None:
    request = Request(RunConfig(optimizer="none"), "", tasks())
    same = RunConfig(optimizer="none", threads=3, max_minutes=5, api_base="http://127.0.0.1:1")
    assert run_key(Request(same, "openai/a-model", tasks())) == run_key(request)
    others = [
        Request(RunConfig(optimizer="none", seed=1), "", tasks()),
        Request(RunConfig(optimizer="none"), "", tasks()[:2]),
        Request(RunConfig(optimizer="none"), "", tasks(), tasks()),
    ]
    assert len({run_key(each) for each in (request, *others)}) == 4
