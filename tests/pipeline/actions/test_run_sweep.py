"""A sweep resumes where it was interrupted, leaves alone what runs elsewhere, and compares means with intervals."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy.stats import ttest_1samp

from pipeline import sweep as command
from pipeline.actions import run_sweep as action
from pipeline.base.errors import Exit, run_command
from pipeline.record import ownership, store
from pipeline.record.ownership import Claim, Owner
from tests.support.answering_lm import Engine

pytestmark = pytest.mark.usefixtures("unrendered")

SPEC = """\
base: {{optimizer: adaptive, lm: scripted, samples: 4, temperatures: [1.0], threads: 1, tasks: [{tasks}]}}
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
    values = [3.0, 4.5, 4.0, 7.0]
    expected = ttest_1samp(values, 0).confidence_interval(0.95)
    found = action.interval(values)
    assert found["mean"] == pytest.approx(4.625)
    assert (found["low"], found["high"]) == (pytest.approx(expected.low), pytest.approx(expected.high))
    assert action.interval([2.0]) == {"mean": 2.0, "low": None, "high": None}
    assert action.interval([]) == {"mean": None, "low": None, "high": None}
