"""The page escapes texts, compares runs with remarks and leaves blank what it cannot say."""

import re
from dataclasses import replace
from pathlib import Path

from pipeline.reporting import page
from pipeline.reporting.runs import RecordedRun, replay
from tests.support.csv_files import rows

NAMES = ("easy/0", "hard/0", "no/0")


def test_texts_of_a_run_are_no_markup(run_read: RecordedRun, tmp_path: Path) -> None:
    """Names, options and programs are escaped."""
    evil = "<script>alert(1)</script>"
    run = replace(run_read, name=evil, label=evil, params={"lm": evil}, programs={"easy/0": f"return E0  # {evil}"})
    page.write([run], tmp_path)
    text = (tmp_path / "index.html").read_text()
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_nothing_solved_is_reported_too(run_read: RecordedRun, tmp_path: Path) -> None:
    """No curve rises, and what can't be said is left blank."""
    wrong = [replace(a, passed=False, score=0.0) for a in run_read.iterations[0].attempts]
    iterations, counts = replay({0: wrong}, {0: "None"}, NAMES, {})
    page.write([replace(run_read, iterations=iterations, counts=counts, programs={})], tmp_path)
    (row,) = rows(tmp_path / "table1_diversity.csv")
    assert (row["success diversity"], row["pass_at_n"]) == ("", "0.0")


def test_runs_with_other_tasks_or_samples_are_compared_with_a_remark(
    run_read: RecordedRun, unrendered: None, tmp_path: Path
) -> None:
    """The page says in what the runs differ."""
    few = replace(run_read, label="few", tasks={"easy/0": run_read.tasks["easy/0"]})
    many = replace(run_read, label="many", samples=8)
    assert page.remarks([many, replace(many, label="again")]) == []
    tasks_remark, samples_remark = page.remarks([few, replace(run_read, label="all"), many])
    assert tasks_remark == "The runs have 2 different sets of tasks. Tasks in all of these runs: 1."
    assert samples_remark.endswith("differs: [2, 8].")
    other = replace(run_read, label="other", params={"task_set_digest": "of the same names"})
    assert "2 different sets" in page.remarks([run_read, other])[0]
    page.write([few, many], tmp_path)
    assert (tmp_path / "index.html").read_text().count('class="remark"') == 2


def test_a_run_of_one_iteration_has_no_curve(run_read: RecordedRun, unrendered: None, tmp_path: Path) -> None:
    """Beside others it is a point of the picture of all; the page says so."""
    point = replace(run_read, label="point", iterations=run_read.iterations[:1])
    files = page.write([point, run_read], tmp_path)
    assert [name for name in files if name.startswith("learning_curve")] == [
        "learning_curve.csv",
        "learning_curve_2.svg",
        "learning_curve_2.png",
        "learning_curves.svg",
        "learning_curves.png",
    ]
    assert "Some runs have a single iteration" in (tmp_path / "index.html").read_text()
    alone = page.write([point], tmp_path)
    assert [name for name in alone if name.startswith("learning")] == ["learning_curve.csv"]
    assert "The run has a single iteration" in (tmp_path / "index.html").read_text()


def test_the_heat_map_has_each_task_s_right_answers_in_each_iteration(
    run_read: RecordedRun, unrendered: None, tmp_path: Path
) -> None:
    """The iteration that solves a task is marked; afterwards the task is not sampled."""
    page.write([run_read], tmp_path)
    heat = (tmp_path / "index.html").read_text().partition('<table class="heat">')[2].partition("</table>")[0]
    head, *shown = heat.split("<tr>")[1:]
    assert re.findall(r">([^<]+)</th>", head) == ["task", "1: None", "2: H_1", "3: H_2", "4: HM_2"]
    cells = {row.partition(">")[2].partition("<")[0]: re.findall(r"(\d/\d|·)<", row) for row in shown}
    assert cells == {"easy/0": ["2/2", "·", "·", "·"], "hard/0": ["0/2", "2/2", "·", "·"], "no/0": ["0/2"] * 4}
    assert heat.count('<td style="--share: 100%" class="solved">2/2</td>') == heat.count('class="solved"') == 2


def test_tables_are_readable_without_eyes(run_read: RecordedRun, unrendered: None, tmp_path: Path) -> None:
    """Each has a caption, every head says whether it heads a column or a row, every picture has a text."""
    page.write([run_read, replace(run_read, label="other")], tmp_path)
    text = (tmp_path / "index.html").read_text()
    assert text.count("<table") == text.count("<caption>") >= 7
    assert not re.findall(r"<th(?! scope=)[ >]", text)
    assert not re.findall(r'<img(?![^>]* alt="[^"])', text)
