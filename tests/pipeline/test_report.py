"""A report holds these.

- Every figure follows from the recorded attempts: it equals the optimizer's own, and a run that was killed before it
  had any is reported, too.
- The page needs no more than the files beside it.
- Texts of a run cannot become markup.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest

from optimizers import (
    AdaptiveFewShot,
    BaseObserver,
    Budget,
    Domain,
    Experience,
    IterationStarted,
    TaskCount,
    TokenCount,
)
from pipeline import report
from pipeline.base.errors import UsageError, run_command
from pipeline.record import store
from pipeline.record.recorder import recorded
from pipeline.reporting import figures, page, tables
from pipeline.reporting.runs import RecordedRun, read_runs, replay
from tests.pipeline.conftest import Recorded
from tests.support.scripted_runs import RIGHT, Engine, Solver, is_right, learn, tasks

NAMES = ("easy/0", "hard/0", "no/0")


@pytest.fixture
def store_of_run(recorded_run: Recorded, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """The store that holds the scripted run, and nothing else."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{recorded_run.folder}/mlflow.db")
    return recorded_run


@pytest.fixture
def run_read(store_of_run: Recorded) -> RecordedRun:
    (run,) = read_runs([])
    return run


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_figure_equals_what_the_optimizer_said(run_read: RecordedRun, recorded_run: Recorded) -> None:
    """Labels with cycles, newly solved tasks, pass@k, prompt tokens per task and tokens, iteration by iteration."""
    said = recorded_run.experience
    assert len(said.iterations) == len(run_read.iterations) == 4
    for own, theirs in zip(run_read.iterations, said.iterations, strict=True):
        assert (own.index, own.label, own.solved) == (theirs.index, theirs.label, theirs.solved)
        assert (own.score.pass_at_1, own.score.pass_at_8) == (theirs.pass_at_1, theirs.pass_at_8)
        assert (own.score.pass_at_n, own.score.solved) == (theirs.pass_at_n, theirs.solved_total)
        assert own.prompt_per_task == theirs.tokens_prompt_per_task
        assert own.tokens == TokenCount.sum(theirs.tokens.values())
    assert run_read.programs == {entry.task_key: entry.outputs["impl"] for entry in said.entries}
    best = {e.task_key: (e.temperature, e.successes, e.samples) for e in said.entries}
    assert {name: (c.temperature, c.successes, c.samples) for name, c in run_read.counts.items()} == best
    assert run_read.samples == 2


def test_a_run_that_died_is_reported_by_what_it_had_recorded(store_folder: Path, recorded_run: Recorded) -> None:
    """Without experience and solutions: the figures of its iterations, and the right answers' programs."""

    class Dies(BaseObserver):
        def iteration_started(self, event: IterationStarted) -> None:
            if event.index == 2:
                raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError), recorded("died", {"granularity": 3}, tasks()) as recorder:
        learn([recorder, Dies()])
    (run,) = read_runs(["died"])
    assert run.status == "FAILED"
    said = recorded_run.experience.iterations[:2]
    assert [it.score.pass_at_1 for it in run.iterations] == [it.pass_at_1 for it in said]
    assert run.programs == {"easy/0": RIGHT, "hard/0": RIGHT}


def test_tasks_solved_by_an_earlier_run_keep_its_figures(store_folder: Path) -> None:
    """A run that starts from another's experience does not sample them again."""
    earlier = learn([])
    examples = [dspy.Example(name=task.name, task=task).with_inputs("name", "task") for task in tasks()]
    with recorded("continues", {}, tasks()) as recorder, dspy.context(lm=dspy.LM("s", engine=Engine(), cache=False)):
        domain = Domain(task_key=lambda example: str(example.name))
        optimizer = AdaptiveFewShot(is_right, 2, temperatures=(0.4,), threads=1, domain=domain, observers=[recorder])
        said = optimizer.compile(Solver(), trainset=examples, experience=earlier).experience
    (run,) = read_runs(["continues"])
    assert run.score.pass_at_1 == said.iterations[-1].pass_at_1 == pytest.approx(2 / 3)
    assert set(run.counts) == {"easy/0", "hard/0"}
    assert run.solved_in == {}
    assert [it.label for it in run.iterations] == [it.label for it in said.iterations]


def test_a_task_without_attempts_is_unsolved(run_read: RecordedRun) -> None:
    """And what was solved before the run counts from its first iteration on."""
    attempts = {it.index: it.attempts for it in run_read.iterations}
    labels = {it.index: it.label for it in run_read.iterations}
    names = [*NAMES, "never/0", "before/0"]
    iterations, counts = replay(attempts, labels, names, {"before/0": TaskCount("before/0", 0.4, 1, 2)})
    assert [it.score.solved for it in iterations] == [2, 3, 3, 3]
    assert iterations[0].score.pass_at_1 == pytest.approx((1 + 1 / 2) / 5)
    assert "never/0" not in counts


def test_labels_are_those_on_record(store_folder: Path) -> None:
    """Of the nested runs; if one of them was deleted, the folder of its attempts gives the label without the cycle."""
    with recorded("labelled", {}, tasks()) as recorder:
        learn([recorder])
    client, experiment = store.open_store()
    nested = store.nested_runs(client, experiment, recorder.run_id)
    client.delete_run(nested["03 H"].info.run_id)
    (run,) = read_runs(["labelled"])
    assert [it.label for it in run.iterations] == ["None", "H_1", "H", "HM_2"]


def test_the_page_refers_only_to_files_beside_it(
    store_of_run: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And `--json` names them all."""
    folder = tmp_path / "new" / "report"
    assert run_command(report.NAME, report.main, ["-o", str(folder), "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert sorted(told["files"]) == sorted(path.name for path in folder.iterdir())
    assert Path(told["page"]) == folder / "index.html"
    text = (folder / "index.html").read_text()
    referred = set(re.findall(r'(?:src|href)="([^"#][^"]*)"', text))
    assert referred == set(told["files"]) - {"index.html"}
    assert all((folder / name).stat().st_size > 0 for name in referred)
    assert all((folder / n).read_bytes().startswith(b"\x89PNG") for n in referred if n.endswith(".png"))
    assert "2 of 3" in text
    assert "http" not in text


def test_the_csv_files_hold_the_figures(run_read: RecordedRun, recorded_run: Recorded, tmp_path: Path) -> None:
    page.write([run_read], tmp_path)
    said = recorded_run.experience.iterations
    curve = rows(tmp_path / "learning_curve.csv")
    assert [row["label"] for row in curve] == ["1: None", "2: H_1", "3: H_2", "4: HM_2"]
    assert [float(row["prompt_tokens_per_task"]) for row in curve] == [it.tokens_prompt_per_task for it in said]
    assert [float(row["pass_at_n"]) for row in curve] == [it.pass_at_n for it in said]
    at_k = [float(row["pass_at_k"]) for row in rows(tmp_path / "pass_at_k.csv")]
    assert at_k == [said[-1].pass_at_1, said[-1].pass_at_n]
    groups = {row["group"]: row["pass_at_n"] for row in rows(tmp_path / "table4_groups.csv")}
    assert groups == {"easy": "1.0", "hard": "1.0", "no": "0.0"}
    solved = {row["task"]: (row["solved_in_iteration"], row["program"]) for row in rows(tmp_path / "tasks.csv")}
    assert solved == {"easy/0": ("1", RIGHT), "hard/0": ("2", RIGHT), "no/0": ("", "")}
    first, everything = rows(tmp_path / "table1_diversity.csv")
    assert (first["answers of"], first["answers"]) == ("1: None", "12")
    assert everything["answers"] == str(len(recorded_run.experience.attempts))


def test_tables_2_and_4_are_laid_out_as_in_the_paper(run_read: RecordedRun) -> None:
    """By the oracles' classes, all tasks weighing the same in every average."""
    task = run_read.tasks["easy/0"]
    names = ("attn/0", "norm/0", "gemm/1", "norm/1")  # A1, AR, S1, SR
    counts = {name: TaskCount(name, 0.7, c, 4) for name, c in zip(names, (4, 2, 1, 0), strict=True) if c}
    run = replace(run_read, tasks=dict.fromkeys([*names, "gemm/2"], task), counts=counts)
    layout = {row[:2]: row[3:] for row in tables.class_layout([run]).rows}
    assert layout[("Arith", "pass@1")] == (1, 0.5, 0.75)
    assert layout[("Shape", "pass@n")] == ("1/2", "0/1", "1/3")
    assert layout[("All", "pass@n")] == ("2/3", "1/2", "3/5")
    assert layout[("All", "pass@1")][2] == pytest.approx((1 + 0.5 + 0.25) / 5)
    groups = tables.group_layout([run])
    assert groups.head == ("run", "metric", "attn", "gemm", "norm", "all")
    assert groups.rows[0][2:5] == (1, 0.125, 0.25)
    assert groups.rows[1][2:5] == (1, 0.5, 0.5)


def test_texts_of_a_run_are_no_markup(run_read: RecordedRun, tmp_path: Path) -> None:
    """Names, options and programs are escaped."""
    evil = "<script>alert(1)</script>"
    run = replace(run_read, name=evil, label=evil, params={"lm": evil}, programs={"easy/0": f"return E0  # {evil}"})
    page.write([run], tmp_path)
    text = (tmp_path / "index.html").read_text()
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_runs_that_differ_in_granularity_alone_are_compared(run_read: RecordedRun, tmp_path: Path) -> None:
    """One picture of m = 1 to 4, the last of equals; a run with another seed stands apart."""

    def made(m: int, seed: int, run_id: str) -> RecordedRun:
        params = {"optimizer": "adaptive", "granularity": str(m), "seed": str(seed)}
        return replace(run_read, params=params, run_id=run_id, label=f"m = {m}, seed {seed}")

    runs = [made(m, 0, f"old{m}") for m in (1, 2, 3, 4)] + [made(2, 0, "new2"), made(3, 1, "other")]
    (alike,) = figures.granularity_sets(runs)
    assert [run.run_id for run in alike] == ["old1", "new2", "old3", "old4"]
    files = page.write(runs, tmp_path)
    assert {"granularity.png", "learning_curves.png", "learning_curve_6.png"} <= set(files)
    assert "Granularity</h2>" in (tmp_path / "index.html").read_text()


def test_nothing_solved_is_reported_too(run_read: RecordedRun, tmp_path: Path) -> None:
    """No curve rises, and what can't be said is left blank."""
    wrong = [replace(a, passed=False, score=0.0) for a in run_read.iterations[0].attempts]
    iterations, counts = replay({0: wrong}, {0: "None"}, NAMES, {})
    page.write([replace(run_read, iterations=iterations, counts=counts, programs={})], tmp_path)
    (row,) = rows(tmp_path / "table1_diversity.csv")
    assert (row["success diversity"], row["pass_at_n"]) == ("", "0.0")


@pytest.fixture
def three_runs(store_folder: Path) -> Iterator[None]:
    for name, params in [("adaptive a", {"granularity": 3}), ("adaptive b", {"granularity": 1}), ("none a", {})]:
        with recorded(name, {"lm": "scripted", **params}, tasks()) as recorder:
            learn([recorder], budget=Budget(iterations=1))
    yield


def test_runs_are_named_by_ids_and_beginnings(three_runs: None) -> None:
    """By granularity, then by time; the latest by default; labels give what differs."""
    (latest,) = read_runs([])
    assert (latest.name, latest.label) == ("none a", "none a")
    both = read_runs(["adaptive"])
    assert [(run.name, run.label) for run in both] == [("adaptive b", "m = 1"), ("adaptive a", "m = 3")]
    assert read_runs([latest.run_id[:8]])[0].run_id == latest.run_id
    assert len(read_runs(["adaptive", both[0].run_id])) == 2
    with pytest.raises(UsageError, match=r"nothing: no such run; the latest are 'none a' \("):
        read_runs(["nothing"])


def test_a_run_without_answers_is_left_out_where_others_have_some(
    three_runs: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on stderr names it; alone, it is an error, as it is to who does not say that it may be left out."""
    with recorded("adaptive empty", {}, tasks()) as recorder:
        pass
    out = str(tmp_path / "out")
    assert run_command(report.NAME, report.main, ["adaptive", "-o", out, "--json"]) == 0
    told = capsys.readouterr()
    assert len(json.loads(told.out)["runs"]) == 2
    left_out = f"run 'adaptive empty' ({recorder.run_id}) has no recorded answers"
    assert told.err == f"{report.NAME}: left out: {left_out}\n"
    assert run_command(report.NAME, report.main, [recorder.run_id, "-o", out]) == 2
    assert capsys.readouterr().err == f"{report.NAME}: {left_out}; nothing to report\n"
    with pytest.raises(UsageError, match="adaptive empty"):
        read_runs(["adaptive"])


def test_the_latest_run_is_the_latest_with_answers(
    three_runs: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of an optimizer that was interrupted has metrics, and nothing to report."""
    with recorded("mipro failed", {}, tasks()) as recorder:
        recorder.run_finished(Experience(NAMES, stopped="failed", message="mipro failed"))
    assert run_command(report.NAME, report.main, ["-o", str(tmp_path / "out")]) == 0
    told = capsys.readouterr()
    assert told.out.endswith(": none a\n")
    assert "left out: run 'mipro failed'" in told.err


def test_runs_with_other_tasks_or_samples_are_compared_with_a_remark(run_read: RecordedRun, tmp_path: Path) -> None:
    """The page says which runs differ, and in what; and which have no pass@8."""
    few = replace(run_read, label="few", tasks={"easy/0": run_read.tasks["easy/0"]})
    many = replace(run_read, label="many", samples=8)
    assert page.remarks([many, replace(many, label="again")]) == []
    tasks_told, samples_told, few_told = page.remarks([few, replace(run_read, label="all"), many])
    assert tasks_told == "The runs have different tasks: 1 in few; 3 in all and many. Tasks in all of these runs: 1."
    assert samples_told.endswith("which is the n of pass@n: 2 in few and all; 8 in many.")
    assert few_told == "Runs with fewer than 8 samples, whose pass@8 is over all samples: few and all."
    other = replace(run_read, label="other", params={"task_set_digest": "of the same names"})
    assert "3 in other" in page.remarks([run_read, other])[0]
    page.write([few, many], tmp_path)
    assert (tmp_path / "index.html").read_text().count('class="remark"') == 3


def test_a_run_of_one_iteration_has_no_curve(run_read: RecordedRun, tmp_path: Path) -> None:
    """Beside others it is a point of the picture of all; the page says so."""
    point = replace(run_read, label="point", iterations=run_read.iterations[:1])
    files = page.write([point, run_read], tmp_path)
    assert [name for name in files if name.startswith("learning_curve")] == [
        "learning_curve.csv",
        "learning_curve_2.png",
        "learning_curves.png",
    ]
    assert "Some runs have a single iteration" in (tmp_path / "index.html").read_text()
    alone = page.write([point], tmp_path)
    assert [name for name in alone if name.startswith("learning")] == ["learning_curve.csv"]
    assert "The run has a single iteration" in (tmp_path / "index.html").read_text()


def test_the_status_is_a_column_if_a_run_did_not_finish(run_read: RecordedRun, tmp_path: Path) -> None:
    """A column of nothing but FINISHED would only take room."""

    def columns(*runs: RecordedRun) -> list[str]:
        page.write(runs, tmp_path)
        overview = (tmp_path / "index.html").read_text().partition("</thead>")[0]
        return re.findall(r"<th[^>]*>([^<]*)</th>", overview)

    other = replace(run_read, label="other")
    assert "status" not in columns(run_read, other)
    assert columns(run_read, replace(other, status="FAILED"))[:2] == ["run", "status"]


def test_bad_usage_is_reported_in_one_line(
    store_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2: no folder named, nothing recorded, a run that recorded nothing, a folder that is a file."""
    cases: list[tuple[list[str], str]] = [([], "-o"), (["-o", str(tmp_path / "out")], "no run is recorded yet")]
    for argv, told in cases:
        assert run_command(report.NAME, report.main, argv) == 2
        assert told in capsys.readouterr().err
    with recorded("empty", {}, tasks()):
        pass
    assert run_command(report.NAME, report.main, ["empty", "-o", str(tmp_path / "out")]) == 2
    assert "has no recorded answers" in capsys.readouterr().err
    with recorded("full", {}, tasks()) as recorder:
        learn([recorder])
    (tmp_path / "file").write_text("")
    assert run_command(report.NAME, report.main, ["full", "-o", str(tmp_path / "file")]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "file is not a folder" in err
