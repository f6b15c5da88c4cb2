"""An ablation resumes where it was interrupted, ends at its budget, and shows all methods the same skills."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optimizers import Entry, Experience, TokenCount
from pipeline.actions.run_ablation import METHODS, AblationPlan, new_plan
from pipeline.base.config import PlanOptions
from pipeline.base.errors import Exit, UsageError
from pipeline.record.request import Request
from pipeline.running.session import mined_skills, new_agent
from step_runtime.tasks.task import dump_task
from tests.support.ablation_runs import options, recorded, run
from tests.support.answering_lm import Engine
from tests.support.csv_files import rows
from tests.support.recurring import LONGER, PLAIN

pytestmark = pytest.mark.usefixtures("unrendered")


def test_an_interrupted_ablation_is_resumed(
    engine: Engine, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The LM fails in the second run; resumed, the first is unchanged and no answer is requested again."""
    page = tmp_path / "page"
    engine.fail_from = 12 + 7
    assert run(*options(folder, page)) == Exit.LM
    reported = capsys.readouterr().err
    ablation = reported.rpartition("--resume ")[2].split()[0]
    first = recorded()
    assert [r.info.status for r in first] == ["FINISHED", "FAILED"]
    engine.fail_from, engine.calls = 1_000_000, 0
    assert run("--resume", ablation, "--samples", "8") == Exit.USAGE
    assert run("--resume", ablation[:5], "-o", str(page)) == Exit.OK
    runs = recorded()
    assert [r.info.run_id for r in runs[:2]] == [r.info.run_id for r in first]
    assert len(runs) == 4
    assert [r.info.status for r in runs] == ["FINISHED"] * 4
    attempts = rows(page / "methods.csv")
    assert int(attempts[1]["tokens in"]) == 10 * 12
    assert run("--resume", ablation, "-o", str(page)) == Exit.OK
    assert len(recorded()) == 4


def test_a_budget_that_is_gone_at_once_ends_it(
    engine: Engine, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3, and no page of nothing."""
    assert run(*options(folder, tmp_path / "page"), "--max-minutes", "1e-9") == Exit.LM
    assert "before any answer was sampled" in capsys.readouterr().err.splitlines()[-1]
    assert (engine.calls, (tmp_path / "page").exists()) == (0, False)


@pytest.fixture
def earlier_run(tmp_path: Path) -> str:
    """The path of an experience of two solved tasks that share a part."""
    entries = tuple(
        Entry(str(each.task.name), {"task": each.task}, {"impl": each.program}, 1, 2, 0.7, 0, 0.7, 0, TokenCount())
        for each in (PLAIN, LONGER)
    )
    path = tmp_path / "experience.json"
    path.write_text(json.dumps(Experience(("plain", "longer"), entries).to_dict(attempts=False)))
    return str(path)


def test_all_methods_are_shown_the_same_skills(folder: Path, earlier_run: str) -> None:
    """None starts from what the earlier run learned, and a resumed run has the same skills from its own record."""
    plan = new_plan(PlanOptions(skills=1, tasks=(str(folder),), experience=earlier_run))
    requests = [plan.request("embedded", method, "embedded/8") for method in METHODS]
    resumed = [Request.from_json(request.to_json()) for request in requests]
    found = [mined_skills(request.config, request.skill_source) for request in (*requests, *resumed)]
    assert len(found[0]) == 1 and all(each == found[0] for each in found)
    assert [request.experience for request in requests] == [None] * len(METHODS)
    for request, skills in zip(requests, found, strict=False):
        assert "Mined pattern" in new_agent(request.config, skills).proposer.predict.signature.instructions
    assert AblationPlan.of(resumed[0]).solved == resumed[0].skills_from


def test_skills_never_come_from_the_tasks_of_the_ablation(tmp_path: Path, earlier_run: str) -> None:
    """Whatever they are called, as a skill's example is shown with its program."""
    mine = tmp_path / "ablated"
    mine.mkdir()
    (mine / "renamed.yaml").write_text(dump_task(PLAIN.task))
    options = PlanOptions(skills=1, tasks=(str(mine),), experience=earlier_run)
    plan = new_plan(options)
    assert plan.solved is not None and [entry.task_key for entry in plan.solved.entries] == ["longer"]
    (mine / "longer.yaml").write_text(dump_task(LONGER.task))
    with pytest.raises(UsageError, match="solved none but the tasks of this ablation"):
        new_plan(options)


@pytest.mark.parametrize("options", [["--skills", "2"], ["--experience", "abcdef"]])
def test_skills_need_the_run_that_they_are_mined_from(
    engine: Engine, folder: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """One clear message, before anything is asked; the same the other way round."""
    assert run("--tasks", str(folder), "--lm", "scripted", *options) == Exit.USAGE
    assert "--skills and --experience: expected both" in capsys.readouterr().err
    assert engine.calls == 0
