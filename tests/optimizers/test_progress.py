"""A bar shows what a run in a terminal or a notebook is doing."""

import sys

import pytest

from optimizers.progress import watched
from tests.support.scripted_program import learn, some, tasks


def test_every_iteration_has_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    """With its samples, the tasks solved and the tokens; a validation has one, too; nothing is written on stdout."""
    learn("abx", some, display_progress=True, compiling={"valset": tasks("b")})
    out, err = capsys.readouterr()
    assert not out and "1: None: 100%" in err and "12/12" in err and "solved=2/3" in err
    assert "validation of H_2: 100%" in err and "tokens=" in err


def test_there_is_a_bar_where_somebody_sees_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not where the output is a file, nor where it is switched off."""
    assert not watched()
    learn("a", some)
    monkeypatch.setattr("optimizers.driver.watched", lambda: True)
    learn("a", some, display_progress=False)
    assert not capsys.readouterr().err
    learn("a", some)
    assert "1: None" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert watched()
