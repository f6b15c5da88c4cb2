"""Compiling continues what an earlier run solved."""

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient

from optimizers import Entry, Experience, TokenCount
from pipeline.record import store
from step_runtime.verification.loading import load_task
from tests.support.answering_lm import Doubling, run
from tests.support.scripted_runs import RIGHT

pytestmark = pytest.mark.usefixtures("unrendered")


def test_what_an_earlier_run_solved_counts_as_solved(
    doubling: Doubling, folder: Path, capsys: pytest.CaptureFixture[str]
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
    doubling: Doubling, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
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
