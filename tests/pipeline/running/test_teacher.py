"""A teacher solves tasks before an LM learns: what it solves is shown, and is none of the LM's successes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from optimizers.strategies import hardest_first
from pipeline.record.request import parse_experience
from tests.support.answering_lm import Doubling, run

pytestmark = pytest.mark.usefixtures("unrendered")
TEACHER = ("--teacher", "search", "--teacher-minutes", "0.5")


def test_the_lm_learns_from_what_its_teacher_solves(
    doubling: Doubling, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not asked for the teacher's task, which counts nowhere; shown its program, it solves another one."""
    double, triple = ("--json", "--tasks", str(folder / "double.yaml")), ("--tasks", str(folder / "triple.yaml"))
    assert run("adaptive", *double, *TEACHER) == 1
    out, err = capsys.readouterr()
    first = json.loads(out)
    assert (first["taught"], first["solved"], first["unsolved"], first["solved_earlier"]) == (["double"], [], [], [])
    assert (first["pass_at_1"], first["pass_at_n"], first["iterations"]) == (0.0, 0.0, 0)
    assert "the teacher solved 1 of 1" in err
    assert run("adaptive", *triple) == 1
    assert run("adaptive", *triple, "--experience", first["run_id"]) == 0


def test_what_a_teacher_solved_is_shown_as_the_hardest(
    doubling: Doubling, folder: Path, store_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The record says who solved it, for the tables as for runs that continue it; its success rate is 0."""
    assert run("adaptive", "--tasks", str(folder), *TEACHER, "--max-iterations", "1") == 1
    out = capsys.readouterr().out
    assert "taught by search" in out and "taught   2 tasks by the teacher, not sampled from the LM" in out
    (path,) = store_folder.rglob("experience.json")
    entries = parse_experience(path.read_text(), str(path)).entries
    assert {entry.teacher for entry in entries} == {"search"}
    by_the_lm = replace(entries[0], teacher=None, successes=1, samples=64)
    assert hardest_first([by_the_lm, *entries[1:]])[-1] == by_the_lm


def test_a_teacher_needs_an_optimizer_that_learns(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One clear message, before anything is searched."""
    assert run("none", "--tasks", str(folder), *TEACHER) == 2
    assert "--teacher: `none` does not learn from it" in capsys.readouterr().err
