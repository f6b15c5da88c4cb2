"""The experiment on selections continues where it ended, shows its arms equal tokens, and asks before it spends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import forked
from tests.support.lm_server import Server

CONTROL = ("-m", "benchmarks.selection_experiment", "--control", "--control-tasks", "25", "--seeds", "1")


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the control writes."""
    path = tmp_path_factory.mktemp("control") / "whole.jsonl"
    assert forked.run(*CONTROL, "-o", str(path)).returncode == 0
    return path


def test_a_run_that_was_cut_short_is_completed_as_if_it_had_not_been(whole: Path, tmp_path: Path) -> None:
    """All but the times; a last line that is cut short is written again; other settings are refused."""
    cut = tmp_path / "cut.jsonl"
    cut.write_text("".join(whole.read_text().splitlines(keepends=True)[:6]) + '{"reader": "con')
    assert forked.run(*CONTROL, "-o", str(cut)).returncode == 0
    expected, found = ([{**line, "milliseconds": 0} for line in lines_of(path)] for path in (whole, cut))
    assert found == expected and len(found) == 1 + 3 * 4
    refused = forked.run(*CONTROL, "--budgets", "500", "-o", str(cut))
    assert refused.returncode == 2 and "cut.jsonl: line 1: expected the settings" in refused.stderr


def test_every_arm_fills_the_same_budget_and_every_task_is_held_out_once(whole: Path) -> None:
    """No arm may win by showing more; whole groups are held out."""
    settings, *cells = lines_of(whole)
    own = [cell for cell in cells if cell["reader"] == "control@4"]
    assert sorted(task for cell in own for task in cell["tasks"]) == sorted(settings["groups"])
    for cell in own:
        assert cell["tokens"].pop("none") == 0
        assert all(1500 <= tokens <= 2000 for tokens in cell["tokens"].values()), cell["tokens"]
    folds = [{settings["groups"][task] for task in cell["tasks"]} for cell in own]
    assert sum(map(len, folds)) == len(set().union(*folds))


def test_an_lm_is_not_asked_without_consent(tmp_path: Path) -> None:
    """The estimate is shown, and nothing is written."""
    command = ("-m", "benchmarks.selection_experiment", "--lm", "openai/gpt-4o", "--seeds", "2", "--per-level", "1")
    ran = forked.run(*command, "-o", str(tmp_path / "lm.jsonl"))
    assert ran.returncode == 1 and not list(tmp_path.iterdir())
    tasks, cells = 105 + 4, 1 + 9
    assert f"requests {2 * tasks * (1 + 3 * 2 + cells):,}, tokens in " in ran.stderr
    assert "dollars at most" in ran.stderr and "add --yes to start" in ran.stderr


def test_any_lm_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over HTTP, on a few tasks; its answers are counted as they were verified. A server that is gone ends with 3."""
    command = ("-m", "benchmarks.selection_experiment", "--lm", "openai/doubling", "--most-tasks", "5", "--seeds", "1")
    options = ("--per-level", "0", "--arms", "none", "random", "--yes", "-o", str(tmp_path / "lm.jsonl"))
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with Server() as server:
        address = server.address
        ran = forked.run(*command, *options, "--api-base", address)
        asked = len(server.requests())
    assert ran.returncode == 0, ran.stderr
    settings, *cells = lines_of(tmp_path / "lm.jsonl")
    assert len(settings["groups"]) == 5 == sum(len(cell["tasks"]) for cell in cells)
    assert asked >= 5 * (1 + 2) and {sum(cell["correct"]["none"]) for cell in cells} == {0}
    gone = forked.run(*command, *options, "--first-seed", "7", "--api-base", address)
    assert gone.returncode == 3 and "Traceback" not in gone.stderr
