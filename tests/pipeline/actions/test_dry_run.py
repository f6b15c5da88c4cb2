"""A dry run says what a run takes at least and at most, and asks nothing."""

import json

import pytest

from pipeline import compile as command
from pipeline.actions.dry_run import _passes
from pipeline.base.config import RunConfig
from pipeline.base.errors import UsageError, run_command
from pipeline.base.outputs import DryRunBounds
from tests.support.answering_lm import shared_tasks


def config(**settings: object) -> RunConfig:
    return RunConfig.of({"optimizer": "adaptive", **settings})


@pytest.mark.parametrize("optimizer", ["bootstrap", "random-search", "mipro", "simba", "gepa"])
def test_the_search_of_an_optimizer_counts_and_shrinks_with_the_budget(
    optimizer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pass of samples comes on top."""
    argv = ["--optimizer", optimizer, "--tasks", str(shared_tasks()), "--samples", "4", "--dry-run", "--json"]
    argv += ["--lm", "openai/gpt-4o", "--temperatures", "1.0"]
    found = []
    for limits in ([], ["--max-tokens-total", "400000"]):
        assert run_command(command.NAME, command.main, [*argv, *limits]) == 0
        found.append(json.loads(capsys.readouterr().out))
    (free, limited), one_pass = found, 3 * 4
    assert one_pass < free["least"]["requests"] < free["most"]["requests"]
    assert limited["most"]["requests"] < free["most"]["requests"] or optimizer == "bootstrap"


LEAST = DryRunBounds(requests=8, prompt=90, completion=10, usd=0.5)


def test_passes_are_those_that_the_algorithm_makes_when_each_cycle_solves_one_task_with_its_last_level() -> None:
    assert _passes(config(), LEAST, 4) == 4 + 3 * (3 + 2 + 1)
    assert _passes(config(granularity=2), LEAST, 3) == 3 + 2 * (2 + 1)
    assert _passes(config(max_iterations=2), LEAST, 4) == 4 + 3
    assert _passes(config(optimizer="none"), LEAST, 4) == 4


def test_passes_of_a_control_are_those_that_its_limits_allow() -> None:
    """Of tokens, dollars and iterations the lowest; without any it has no end that can be foreseen."""
    assert _passes(config(optimizer="none", max_iterations=5), LEAST, 4) == 20
    assert _passes(config(selection="resample", max_tokens_total=301, max_iterations=9), LEAST, 4) == 16
    assert _passes(config(selection="resample", max_usd=0.9), LEAST, 4) == 8
    with pytest.raises(UsageError, match="add --max-iterations"):
        _passes(config(selection="resample", max_minutes=1), LEAST, 4)


def test_it_prints_requests_tokens_and_dollars_and_asks_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The LM is not even made; the upper bound keeps to the budget. Sub-tasks have requests that no bound counts."""
    monkeypatch.setattr("pipeline.lms.factory.make_lm", lambda *_, **__: pytest.fail("asked"))
    argv = ["--optimizer", "adaptive", "--tasks", str(shared_tasks()), "--samples", "4", "--dry-run"]
    argv += ["--lm", "openai/gpt-4o", "--temperatures", "0.4,1.0"]
    assert run_command(command.NAME, command.main, [*argv, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    least, most = found["least"], found["most"]
    assert least["requests"] == least["completion"] == 3 * 2 * 4
    assert 0 < least["usd"] < most["usd"] and least["prompt"] < most["prompt"]
    assert most["requests"] == (3 + 3 * (2 + 1)) * 2 * 4 * 2
    assert run_command(command.NAME, command.main, [*argv, "--max-usd", "1"]) == 0
    shown = capsys.readouterr().out
    assert "to 1.00" in shown and "sub-tasks" not in shown
    assert run_command(command.NAME, command.main, [*argv, "--split"]) == 0
    assert "requests for sub-tasks of unsolved tasks come on top" in capsys.readouterr().out
    unknown = [word if word != "openai/gpt-4o" else "openai/nobody" for word in argv]
    assert run_command(command.NAME, command.main, unknown) == 0
    assert "dollars     unknown" in capsys.readouterr().out
    assert run_command(command.NAME, command.main, [*unknown, "--max-usd", "1"]) == 2
    assert run_command(command.NAME, command.main, ["--resume", "1a2b3c4d", "--dry-run"]) == 2
