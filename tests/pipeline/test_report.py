"""A report holds these.

- Every figure follows from the recorded attempts: it equals the optimizer's own, and a run that was killed before it
  had any is reported, too.
- The page needs no more than the files beside it.
- Texts of a run cannot become markup.
"""

import hashlib
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from optimizers import Budget, Experience
from pipeline import report
from pipeline.base.errors import UsageError, run_command
from pipeline.record.recorder import recorded
from pipeline.reporting.runs import read_runs
from tests.pipeline.conftest import Recorded
from tests.support.answering_lm import Doubling, run
from tests.support.scripted_runs import learn, tasks

NAMES = ("easy/0", "hard/0", "no/0")


def test_the_page_refers_only_to_files_beside_it(
    store_of_run: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And `--json` names them all."""
    folder = tmp_path / "new" / "report"
    assert run_command(report.NAME, report.main, ["-o", str(folder), "--json"]) == 0
    reported: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert sorted(reported["files"]) == sorted(path.name for path in folder.iterdir())
    assert Path(reported["page"]) == folder / "index.html"
    text = (folder / "index.html").read_text()
    referred = set(re.findall(r'(?:src|href)="([^"#][^"]*)"', text))
    assert referred == set(reported["files"]) - {"index.html"}
    assert all((folder / name).stat().st_size > 0 for name in referred)
    assert all((folder / n).read_bytes().startswith(b"\x89PNG") for n in referred if n.endswith(".png"))
    assert "2 of 3" in text
    assert "http" not in text


@pytest.mark.usefixtures("unrendered")
def test_runs_are_named_by_ids_and_beginnings_and_those_without_answers_are_left_out(
    store_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By granularity, then by time; the latest with answers by default; labels give the LM, and what differs.

    One line on stderr names a run without answers; alone, it is an error, as it is to who does not say that it may be
    left out. A run of an optimizer that was interrupted has metrics, and nothing to report.
    """
    for name, params in [("adaptive a", {"granularity": 3}), ("adaptive b", {"granularity": 1}), ("none a", {})]:
        with recorded(name, {"lm": "scripted", **params}, tasks()) as recorder:
            learn([recorder], budget=Budget(iterations=1))
    (latest,) = read_runs([])
    assert (latest.name, latest.label) == ("none a", "none a")
    both = read_runs(["adaptive"])
    labels = [("adaptive b", "scripted, m = 1"), ("adaptive a", "scripted, m = 3")]
    assert [(run.name, run.label) for run in both] == labels
    assert read_runs([latest.run_id[:8]])[0].run_id == latest.run_id
    assert len(read_runs(["adaptive", both[0].run_id])) == 2
    with pytest.raises(UsageError, match=r"nothing: no such run; the latest are 'none a' \("):
        read_runs(["nothing"])

    with recorded("mipro failed", {}, tasks()) as recorder:
        recorder.run_finished(Experience(NAMES, stopped="failed", message="mipro failed"))
    out = str(tmp_path / "out")
    assert run_command(report.NAME, report.main, ["-o", out]) == 0
    output = capsys.readouterr()
    assert output.out.endswith(": none a\n")
    assert "left out: run 'mipro failed'" in output.err

    with recorded("adaptive empty", {}, tasks()) as recorder:
        pass
    assert run_command(report.NAME, report.main, ["adaptive", "-o", out, "--json"]) == 0
    output = capsys.readouterr()
    assert len(json.loads(output.out)["runs"]) == 2
    left_out = f"run 'adaptive empty' ({recorder.run_id}) has no recorded answers"
    said = ["reads the recorded runs", f"left out: {left_out}", "draws the figures of 2 runs"]
    assert output.err.splitlines() == [f"{report.NAME}: {line}" for line in said]
    assert run_command(report.NAME, report.main, [recorder.run_id, "-o", out]) == 2
    assert capsys.readouterr().err.splitlines()[1:] == [f"{report.NAME}: {left_out}; nothing to report"]
    with pytest.raises(UsageError, match="adaptive empty"):
        read_runs(["adaptive"])


@pytest.mark.usefixtures("unrendered")
def test_bad_usage_is_reported_in_one_line(
    store_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2: no folder named, nothing recorded, a run that recorded nothing, a folder that is a file."""
    cases: list[tuple[list[str], str]] = [([], "-o"), (["-o", str(tmp_path / "out")], "no run is recorded yet")]
    for argv, reported in cases:
        assert run_command(report.NAME, report.main, argv) == 2
        assert reported in capsys.readouterr().err
    with recorded("empty", {}, tasks()):
        pass
    assert run_command(report.NAME, report.main, ["empty", "-o", str(tmp_path / "out")]) == 2
    assert "has no recorded answers" in capsys.readouterr().err
    with recorded("full", {}, tasks()) as recorder:
        learn([recorder], budget=Budget(iterations=1))
    (tmp_path / "file").write_text("")
    assert run_command(report.NAME, report.main, ["full", "-o", str(tmp_path / "file")]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "file is not a folder" in err


@pytest.mark.usefixtures("unrendered")
def test_runs_are_exported_as_chats_and_as_a_bundle(doubling: Doubling, folder: Path, tmp_path: Path) -> None:
    """Each right program once, repairs with their verdicts, tasks of a group in one split; the archive has it all."""
    assert run("adaptive", "--tasks", str(folder)) == 0
    out = tmp_path / "out"
    assert run_command(report.NAME, report.main, ["--export", "sft", "preferences", "bundle", "-o", str(out)]) == 0
    chats, repairs = (
        [json.loads(line) for line in (out / f"{kind}.jsonl").read_text().splitlines()]
        for kind in ("sft", "preferences")
    )
    (exported,) = read_runs([])
    assert {line["task"] for line in chats} == {"double", "triple"} == {*exported.programs}
    for line in chats:
        assert [message["role"] for message in line["messages"]] == ["system", "user", "assistant"]
        task = exported.tasks[line["task"]]
        assert yaml.safe_load(task.statement)["outputs"][0]["name"] in line["messages"][1]["content"]
        assert line["task_digest"] == hashlib.sha256(task.statement.encode()).hexdigest()[:16]
    assert {line["task"] for line in repairs} == {"triple"}
    assert len({line["split"] for line in (*chats, *repairs)}) == 1, "of one group"
    (first, *_) = repairs
    assert "value" in first["verdict"] and first["chosen"] != first["rejected"]
    assert exported.programs["triple"].strip() in first["chosen"][0]["content"]
    with zipfile.ZipFile(out / "bundle.zip") as archive:
        names = set(archive.namelist())
        described = json.loads(archive.read(f"runs/{exported.run_id}/run.json"))
    assert described["params"]["task_set_digest"] and described["command"].startswith("python -m pipeline.compile")
    assert {"CITATION.txt", "report/index.html", f"runs/{exported.run_id}/request.json"} <= names
    assert any(name.endswith("attempts.jsonl.gz") for name in names)
