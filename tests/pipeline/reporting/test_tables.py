"""Tables 2 and 4 are laid out as in the paper, and CSV files hold the figures."""

from dataclasses import replace
from pathlib import Path

import pytest

from optimizers import TaskCount
from pipeline.reporting import page, tables
from pipeline.reporting.runs import RecordedRun
from tests.pipeline.conftest import Recorded
from tests.support.csv_files import rows
from tests.support.scripted_runs import RIGHT


def test_the_csv_files_hold_the_figures(run_read: RecordedRun, recorded_run: Recorded, tmp_path: Path) -> None:
    page.write([run_read], tmp_path)
    said = recorded_run.experience.iterations
    curve = rows(tmp_path / "learning_curve.csv")
    assert [row["label"] for row in curve] == ["1: None", "2: H_1", "3: H_2", "4: HM_2"]
    assert [float(row["prompt_tokens_per_task"]) for row in curve] == [it.tokens_prompt_per_task for it in said]
    assert [float(row["pass_at_n"]) for row in curve] == [it.pass_at_n for it in said]
    at_k = [float(row["pass_at_k"]) for row in rows(tmp_path / "pass_at_k.csv")]
    assert (at_k[0], at_k[-1]) == (said[-1].pass_at_1_pooled, said[-1].pass_at_n)
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
    layout = tables.class_layout([run]).set_index(["mode", "metric"]).drop(columns="run").T.to_dict("list")
    assert layout["Arith", "pass@1"] == [1, 0.5, 0.75]
    assert layout["Shape", "pass@n"] == ["1/2", "0/1", "1/3"]
    assert layout["All", "pass@n"] == ["2/3", "1/2", "3/5"]
    assert layout["All", "pass@1"][2] == pytest.approx((1 + 0.5 + 0.25) / 5)
    groups = tables.group_layout([run])
    assert [*groups.columns] == ["run", "metric", "attn", "gemm", "norm", "all"]
    assert [*groups.iloc[0, 2:5]] == [1, 0.125, 0.25]
    assert [*groups.iloc[1, 2:5]] == [1, 0.5, 0.5]


def test_outcomes_of_an_iteration_sum_up_to_its_answers(run_read: RecordedRun) -> None:
    """The stage called run and the column of runs are two columns."""
    table = tables.outcomes([run_read])
    assert {"run", "fails at run"} <= {*table.columns} and table["run"][0] == run_read.label
    assert table.iloc[0, 2:].sum() == 12


def test_a_frame_has_a_row_an_attempt(run_read: RecordedRun) -> None:
    found = tables.frame([run_read])
    assert len(found) == len(run_read.attempts)
    assert [*found.groupby("iteration")["scored"].sum()] == [
        sum(a.scored for a in it.attempts) for it in run_read.iterations
    ]
