"""A sweep resumes where it was interrupted, leaves alone what runs elsewhere, and compares means with intervals."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import sweep as command
from pipeline.actions import run_sweep as action
from pipeline.actions.run_sweep import read_spec, run_key
from pipeline.base.config import RunConfig
from pipeline.base.errors import Exit, UsageError, run_command
from pipeline.record import ownership, store
from pipeline.record.ownership import Claim, Owner
from pipeline.record.request import Request
from tests.support.answering_lm import Engine
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
    """The LM fails in the second run: the first is unchanged, no answer is requested again; a new seed is added."""
    assert run(spec) == Exit.OK
    calls = engine.calls
    whole = action.figures(action.open_sweep(spec))
    spec = spec.rename(spec.with_name("again.yaml"))
    engine.calls, engine.fail_from = 0, calls // 2 + 3
    assert run(spec) == Exit.LM
    assert [each["status"] for each in action.figures(action.open_sweep(spec))["runs"]] == ["FINISHED", "FAILED"]
    done, engine.fail_from, engine.calls = engine.fail_from - 1, 1_000_000, 0
    capsys.readouterr()
    assert run(spec) == Exit.OK
    assert engine.calls == calls - done
    err = capsys.readouterr().err
    assert "run 1 of 2: granularity=1, seed=0" in err and " has finished" in err and "resumes with" in err
    result = action.figures(action.open_sweep(spec))
    assert [each["figures"]["solved"] for each in result["configurations"]] == [
        each["figures"]["solved"] for each in whole["configurations"]
    ]
    assert result["address"].endswith("&searchFilter=params.sweep%20%3D%20%27again%27")
    spec.write_text(spec.read_text().replace("[0, 1]", "[0, 1, 2]"))
    engine.calls = 0
    assert run(spec) == Exit.OK
    assert 0 < engine.calls < calls
    assert [each["runs"] for each in action.figures(action.open_sweep(spec))["configurations"]] == [3]


def test_what_runs_elsewhere_is_left_alone(engine: Engine, spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The other runs are made, and exit code 1 says that the sweep is not complete."""
    engine.fail_from = 3
    assert run(spec) == Exit.LM
    engine.fail_from = 1_000_000
    (recorded,) = action.recorded(action.open_sweep(spec)).values()
    client, _ = store.open_store()
    elsewhere = ownership.claim(client, recorded.info.run_id, Owner.of_this_process(), 2)
    capsys.readouterr()
    assert run(spec) == Exit.NO
    out, err = capsys.readouterr()
    assert f"run {recorded.info.run_id[:8]} is still running: process " in err
    assert "granularity=1  " in out
    assert [each["runs"] for each in action.figures(action.open_sweep(spec))["configurations"]] == [1]
    Claim.release(elsewhere)
    assert run(spec) == Exit.OK


def test_an_interval_is_student_s() -> None:
    """As scipy's own test has it; of one run there is none."""
    from scipy.stats import ttest_1samp

    values = [3.0, 4.5, 4.0, 7.0]
    expected = ttest_1samp(values, 0).confidence_interval(0.95)
    found = action.interval(values)
    assert found["mean"] == pytest.approx(4.625)
    assert (found["low"], found["high"]) == (pytest.approx(expected.low), pytest.approx(expected.high))
    assert action.interval([2.0]) == {"mean": 2.0, "low": None, "high": None}
    assert action.interval([]) == {"mean": None, "low": None, "high": None}


GOOD = """\
base:
  optimizer: adaptive
  temperatures: [0.4, 1.0]
sweep:
  granularity: [1, 3]
  seed: [0, 1]
"""


def test_every_combination_is_a_run(tmp_path: Path) -> None:
    (path := tmp_path / "levels.yaml").write_text(GOOD)
    spec = read_spec(path)
    assert spec.name == "levels"
    assert [dict(each.values) for each in spec.combinations] == [
        {"granularity": m, "seed": seed} for m in (1, 3) for seed in (0, 1)
    ]
    assert spec.combinations[3].config == RunConfig(
        optimizer="adaptive", temperatures=(0.4, 1.0), granularity=3, seed=1
    )
    assert [each.configuration for each in spec.combinations] == ["granularity=1"] * 2 + ["granularity=3"] * 2


BAD = {
    "": "1: expected names with values, got None",
    "base: {}": "1: sweep: expected names with values, got None",
    "bases: {}": "1: expected one of name, base, sweep, got 'bases'",
    "name: [a]\nsweep: {seed: [1]}": "1: name: expected a text",
    "base:\n  optimiser: none\nsweep: {seed: [1]}": "2: base: expected settings of a run (",
    "base: {optimizer: none}\nsweep:\n  seed: 3": "3: seed: expected a list of values, got 3",
    "base: {optimizer: none}\nsweep:\n  seed: []": "3: seed: expected a list of values, got []",
    "base: {optimizer: none}\nsweep:\n  seed:\n  - 1\n  - x": "5: seed: expected a whole number of 0 or more, got 'x'",
    "base: {optimizer: none}\nsweep:\n  seed:\n  - 1\n  - 1": "5: seed: expected distinct values, got 1 twice",
    "base:\n  optimizer: none\n  samples: 0\nsweep: {seed: [1]}": "3: samples: expected a whole number of 1 or more",
    "base:\n  samples: 2\nsweep: {seed: [1]}": "2: optimizer: expected a value in `base` or `sweep`",
    "base: {optimizer: none, seed: 1}\nsweep: {seed: [1]}": "2: seed: expected it in `base` or in `sweep`",
    "base: {optimizer: none}\nsweep: {seed: [1]": ":2:18: expected YAML",
}


@pytest.mark.parametrize("text", BAD)
def test_what_is_wrong_is_one_line_with_its_place(text: str, tmp_path: Path) -> None:
    (path := tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(UsageError) as caught:
        read_spec(path)
    assert str(caught.value).startswith(f"{path}:{BAD[text].removeprefix(':')}"), str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none.yaml: cannot read the sweep: No such file or directory$"):
        read_spec(tmp_path / "none.yaml")


def test_too_many_combinations_are_refused(tmp_path: Path) -> None:
    numbers = list(range(200))
    (path := tmp_path / "many.yaml").write_text(
        f"base: {{optimizer: none}}\nsweep: {{seed: {numbers}, samples: {numbers[1:]}}}"
    )
    with pytest.raises(UsageError, match="2: sweep: expected at most 10,000 combinations, got 39,800"):
        read_spec(path)


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
