"""Compiling is repeatable, continues an earlier run, and keeps its work at a budget or a failure."""

import json
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from optimizers import Entry, Experience, TokenCount
from pipeline.record import store
from step_runtime.verification.loading import load_task
from tests.support.doubling_lm import Engine, run
from tests.support.scripted_runs import RIGHT

pytestmark = pytest.mark.usefixtures("unrendered")


def test_what_an_earlier_run_solved_counts_as_solved(
    doubling: Engine, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In pass@k too, where nothing is left to ask."""
    asked = ("adaptive", "--tasks", str(folder / "double.yaml"), "--json")
    run(*asked)
    first = json.loads(capsys.readouterr().out)
    assert run(*asked, "--experience", first["run_id"]) == 0
    second = json.loads(capsys.readouterr().out)
    assert (second["iterations"], second["solved"]) == (0, ["double"])
    assert (second["pass_at_1"], second["pass_at_n"]) == (first["pass_at_1"], 1.0)


def test_what_an_experience_calls_solved_counts_once_it_is_verified(
    doubling: Engine, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A well-typed wrong program solves nothing, is written nowhere, and is named in the summary with the reason."""
    asked = ("adaptive", "--temperatures", "0.7", "--tasks", str(folder / "halve.yaml"))
    claim = load_task(folder / "halve.yaml").named("halve")
    entry = Entry("halve", {"task": claim}, {"impl": RIGHT}, 8, 8, 0.7, 0, 0.7, 0, TokenCount())
    path = tmp_path / "experience.json"
    Experience(("halve",), (entry,)).dump(path)
    assert run(*asked, "--json", "--experience", str(path)) == 1
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert (result["solved"], result["unsolved"]) == ([], ["halve"])
    assert [refusal["place"] for refusal in result["refused"]] == ["entries.0 (halve)"]
    assert "1 of 1 program of the experience refused" in err and "fails at stage value" in err
    recorded = MlflowClient(tracking_uri=store.store_uri()).get_run(result["run_id"]).info.artifact_uri
    artifacts = Path(recorded.removeprefix("file://"))
    assert not (artifacts / "solutions").exists()
    saved = (artifacts / "request.json").read_text() + Path(result["program"]).read_text()
    assert RIGHT.split("\n")[0] not in saved


def test_the_same_seed_gives_the_same_run(doubling: Engine, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All but the times, the run's id and the program's path."""

    def figures() -> dict[str, Any]:
        run("adaptive", "--tasks", str(folder), "--json")
        result: dict[str, Any] = json.loads(capsys.readouterr().out)
        return {key: value for key, value in result.items() if key not in ("run_id", "program", "seconds")}

    assert figures() == figures()


def test_a_budget_ends_the_run_with_what_it_has(
    doubling: Engine, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One iteration, a usable program, exit code 0."""
    assert run("adaptive", "--tasks", str(folder), "--json", "--max-iterations", "1") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["solved"], result["stopped"], result["iterations"]) == (["double"], "budget", 1)
    assert Path(result["program"]).exists()


def test_an_lm_that_gives_out_within_a_run_keeps_the_work(
    doubling: Engine, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3, and a summary of what was solved until then; the run is marked as failed."""
    doubling.fail_from = 7
    assert run("adaptive", "--tasks", str(folder), "--json", "--temperatures", "0.7") == 3
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert result["solved"] == ["double"]
    assert "the key was revoked" in err
    assert "Traceback" not in err
    assert MlflowClient(tracking_uri=store.store_uri()).get_run(result["run_id"]).info.status == "FAILED"
