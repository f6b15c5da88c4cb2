"""The ablation holds these:

- a run for each method and seed on the same tasks, each as `pipeline.compile` would make it, with the method's own
  prompts and guardian;
- each method is compared with the one before it, seed by seed;
- the page's figures are those of the recorded attempts;
- the same command completes an interrupted ablation: no finished run is repeated, no recorded answer requested again.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline import ablate as command
from pipeline.base.errors import Exit, run_command
from pipeline.record import store
from tests.support.answering_lm import ANSWER_TOKENS, PROMPT_TOKENS, Engine
from tests.support.csv_files import rows


def run(*argv: str) -> int:
    return run_command(command.NAME, command.main, argv)


def options(folder: Path, page: Path) -> list[str]:
    return ["--tasks", str(folder), "--lm", "scripted", "--samples", "4", "--threads", "2", "-o", str(page)]


def recorded() -> list[Any]:
    client, experiment = store.open_store()
    runs = client.search_runs([experiment], order_by=["attributes.start_time ASC"])
    return [run for run in runs if run.data.params.get("sweep", "").startswith("ablation ")]


def test_an_interrupted_ablation_is_resumed_to_one_page(
    engine: Engine, folder: Path, tmp_path: Path, unrendered: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every table and picture of the paper's ablation, from runs that differ in method and seed alone.

    The LM fails in the second run; resumed, the first is unchanged and no answer is requested again.
    """
    page = tmp_path / "page"
    argv = (*options(folder, page), "--seed", "0")
    engine.fail_from = 12 + 7
    assert run(*argv) == Exit.LM
    first = recorded()
    assert [r.info.status for r in first] == ["FINISHED", "FAILED"]
    engine.fail_from, engine.calls = 1_000_000, 0
    capsys.readouterr()
    assert run(*argv, "--json") == Exit.OK
    result = json.loads(capsys.readouterr().out)
    found = recorded()
    assert [r.info.run_id for r in found[:2]] == [r.info.run_id for r in first]
    assert [r.info.status for r in found] == ["FINISHED"] * 8

    assert set(result["files"]) == {path.name for path in page.iterdir()}
    pictures = ("figure2_completed", "figure7_learning", "figure8_granularity", "figure9_pass_at_k")
    for name in (*pictures, "figure12_models", "figure13_groups"):
        assert (page / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    text = (page / "index.html").read_text(encoding="utf-8")
    assert all(file in text for file in result["files"] if file != "index.html")
    methods = {row["method"]: row for row in rows(page / "methods.csv")}
    runs = {r.info.run_id: r.data.params for r in found}
    keys = ("optimizer", "guardian", "no_ir", "temperatures", "granularity", "seed")
    asked = {name: tuple(runs[row["run"]][key] for key in keys) for name, row in methods.items()}
    assert asked == {
        "Single-WS": ("none", "none", "True", "0.7", "3", "0"),
        "Single": ("none", "none", "False", "0.7", "3", "0"),
        "Agent": ("none", "paper", "False", "0.7", "3", "0"),
        "Agent, resampled": ("none", "paper", "False", "0.4,0.7,1.0", "3", "0"),
        "Agent, adaptive, m = 1": ("adaptive", "paper", "False", "0.4,0.7,1.0", "1", "0"),
        "Agent, adaptive, m = 2": ("adaptive", "paper", "False", "0.4,0.7,1.0", "2", "0"),
        "Agent, adaptive": ("adaptive", "paper", "False", "0.4,0.7,1.0", "3", "0"),
        "Agent, adaptive, m = 5": ("adaptive", "paper", "False", "0.4,0.7,1.0", "5", "0"),
    }
    assert len({params["task_set_digest"] for params in runs.values()}) == 1

    answers = 3 * 4
    assert int(methods["Single"]["tokens in"]) == PROMPT_TOKENS * answers
    assert int(methods["Agent"]["tokens in"]) == 2 * PROMPT_TOKENS * answers, "the guardian doubles the answers' cost"
    assert int(methods["Agent"]["tokens per solved task"]) == round(2 * ANSWER_TOKENS * answers / 2)
    assert (methods["Single"]["solved"], float(methods["Single"]["pass_at_n"])) == ("2", pytest.approx(2 / 3))
    spent = {name: int(row["tokens"]) for name, row in methods.items()}
    assert 0 <= spent["Agent, resampled"] - spent["Agent, adaptive"] <= 4 * ANSWER_TOKENS, "but answers on their way"

    assert {row["runs"] for row in result["configurations"]} == {1}
    compared = {row["configuration"]: (row["less"], row["pairs"]) for row in result["comparisons"]}
    of = "lm=scripted, method="
    assert compared == {
        f"{of}{name}": (f"{of}{other}", 1)
        for name, other in (
            ("Single", "Single-WS"),
            ("Agent", "Single"),
            ("Agent, adaptive", "Agent, resampled"),
            *((f"Agent, adaptive, m = {m}", "Agent, adaptive") for m in (1, 2, 5)),
        )
    }
    assert len(rows(page / "tests.csv")) == 6
    shown = ["Single", "Agent", "Agent, resampled", "Agent, adaptive"]
    assert [row["method"] for row in rows(page / "figure2_completed.csv")] == shown


@pytest.mark.parametrize(
    ("argv", "reported"),
    [
        (["--lm", "a", "a"], "--lm: a value is given twice"),
        (["--samples", "0"], "expected a whole number of 1 or more"),
        (["--tasks", "nowhere"], "nowhere: no such task"),
    ],
)
def test_a_bad_option_is_reported_in_a_line(
    engine: Engine, argv: list[str], reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is asked."""
    assert run(*argv) == Exit.USAGE
    assert reported in capsys.readouterr().err
    assert engine.calls == 0


def test_a_budget_that_is_gone_at_once_ends_it(
    engine: Engine, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3, and no page of nothing."""
    assert run(*options(folder, tmp_path / "page"), "--max-minutes", "1e-9") == Exit.LM
    assert "before any answer was sampled" in capsys.readouterr().err.splitlines()[-1]
    assert (engine.calls, (tmp_path / "page").exists()) == (0, False)
