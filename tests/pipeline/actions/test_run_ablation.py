"""An ablation resumes where it was interrupted, and ends at its budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.base.errors import Exit
from tests.support.ablation_runs import options, recorded, run
from tests.support.answering_lm import Engine
from tests.support.csv_files import rows

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
