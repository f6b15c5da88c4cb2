"""`python -m pipeline COMMAND` runs the command's module with the remaining arguments."""

import runpy
import sys
from typing import Any

import pytest

from pipeline.__main__ import COMMANDS, run
from tests.support.paths import PROJECT


def test_every_command_is_a_module() -> None:
    """And every module that starts a command is listed."""
    modules = (PROJECT / "pipeline").glob("*.py")
    assert {path.stem for path in modules if "start(NAME, main)" in path.read_text()} == set(COMMANDS)


def test_a_command_gets_the_arguments_after_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the name that its messages use."""
    ran: list[Any] = []
    monkeypatch.setattr(runpy, "run_module", lambda name, **_: ran.append((name, sys.argv)))
    monkeypatch.setattr(sys, "argv", ["adaptive-step", "verify", "gemm/1", "--json"])
    run()
    assert ran == [("pipeline.verify", ["python -m pipeline.verify", "gemm/1", "--json"])]


@pytest.mark.parametrize("argv", [[], ["-h"], ["--help"]])
def test_help_lists_the_commands(
    argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 0, on stdout."""
    monkeypatch.setattr(sys, "argv", ["adaptive-step", *argv])
    with pytest.raises(SystemExit) as ended:
        run()
    out, err = capsys.readouterr()
    assert (ended.value.code, err) == (0, "")
    assert all(f"  {name} " in out for name in COMMANDS)


def test_an_unknown_command_is_refused_with_the_names_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 2, in one line on stderr."""
    monkeypatch.setattr(sys, "argv", ["adaptive-step", "verfy"])
    with pytest.raises(SystemExit) as ended:
        run()
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    assert "'verfy'" in err and "verify" in err
