"""The figures of an ablation's page are those of the recorded attempts."""

from pathlib import Path

import pytest

from pipeline.base.errors import Exit
from tests.support.ablation_runs import options, run
from tests.support.answering_lm import ANSWER_TOKENS, PROMPT_TOKENS, Engine
from tests.support.csv_files import rows

pytestmark = pytest.mark.usefixtures("unrendered")


def test_the_figures_are_those_of_the_attempts(engine: Engine, folder: Path, tmp_path: Path) -> None:
    """Tokens are of every call: the guardian doubles the answers' cost in the paper's scheme."""
    page = tmp_path / "page"
    assert run(*options(folder, page)) == Exit.OK
    methods = {row["method"]: row for row in rows(page / "methods.csv")}
    answers = 3 * 4
    assert int(methods["Single"]["tokens in"]) == PROMPT_TOKENS * answers
    assert int(methods["Agent"]["tokens in"]) == 2 * PROMPT_TOKENS * answers
    assert int(methods["Agent"]["tokens per solved task"]) == round(2 * ANSWER_TOKENS * answers / 2)
    assert [row["method"] for row in rows(page / "table1_diversity.csv")] == ["Single-WS", "Single", "Agent"]
    assert {row["run"] for row in rows(page / "figure9_pass_at_k.csv")} == {"Single-WS", "Single", "Agent"}
    assert [row["method"] for row in rows(page / "figure2_completed.csv")] == ["Single", "Agent", "Agent, adaptive"]
