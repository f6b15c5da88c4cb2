"""The ablation holds these:

- four runs on the same tasks, each as `pipeline.compile` would make it, with the method's own prompts and guardian;
- the page's figures are those of the recorded attempts;
- the same command completes an interrupted ablation: no finished run is repeated, no recorded answer requested again.
"""

import json
from pathlib import Path

import pytest

from pipeline.base.errors import Exit
from tests.support.ablation_runs import options, recorded, run
from tests.support.answering_lm import PROMPT_TOKENS, Engine
from tests.support.csv_files import rows


def test_an_interrupted_ablation_is_resumed_to_one_page_of_four_methods(
    engine: Engine, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every table and picture of the paper's ablation, from four runs that differ in the method alone.

    The LM fails in the second run; resumed, the first is unchanged and no answer is requested again.
    """
    page = tmp_path / "page"
    engine.fail_from = 12 + 7
    assert run(*options(folder, page)) == Exit.LM
    first = recorded()
    assert [r.info.status for r in first] == ["FINISHED", "FAILED"]
    engine.fail_from, engine.calls = 1_000_000, 0
    capsys.readouterr()
    assert run(*options(folder, page), "--json") == Exit.OK
    result = json.loads(capsys.readouterr().out)
    found = recorded()
    assert [r.info.run_id for r in found[:2]] == [r.info.run_id for r in first]
    assert [r.info.status for r in found] == ["FINISHED"] * 4
    assert int(rows(page / "methods.csv")[1]["tokens in"]) == PROMPT_TOKENS * 12
    assert run(*options(folder, page)) == Exit.OK
    assert len(recorded()) == 4

    assert set(result["files"]) == {path.name for path in page.iterdir()}
    for name in ("figure2_completed", "figure9_pass_at_k", "figure12_models", "figure13_groups"):
        assert (page / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    text = (page / "index.html").read_text(encoding="utf-8")
    assert all(file in text for file in result["files"] if file != "index.html")
    methods = result["lms"]["scripted"]
    assert list(methods) == ["Single-WS", "Single", "Agent", "Agent, adaptive"]
    runs = {r.info.run_id: r.data.params for r in found}
    asked = [
        tuple(runs[methods[name]["run"]][key] for key in ("optimizer", "guardian", "no_ir", "temperatures"))
        for name in methods
    ]
    assert asked == [
        ("none", "none", "True", "0.7"),
        ("none", "none", "False", "0.7"),
        ("none", "paper", "False", "0.7"),
        ("adaptive", "paper", "False", "0.4,0.7,1.0"),
    ]
    assert len({params["task_set_digest"] for params in runs.values()}) == 1
    assert methods["Single"]["solved"] == 2
    assert methods["Single"]["pass_at_n"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("argv", "reported"),
    [
        (["--lm", "a", "a"], "--lm: an LM is named twice"),
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
