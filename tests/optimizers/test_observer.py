"""Listeners hear a whole run in the thread that called `compile`."""

import sys
import threading

import pytest

from optimizers.observer import watched
from tests.support.scripted_program import Heard, learn, some, tasks


def test_listeners_hear_everything_in_the_calling_thread():
    heard = Heard()
    compiled = learn("abx", some, observers=[heard], threads=4)
    record = compiled.experience
    assert [event.label for event in heard.started] == ["None", "H_1", "HM_1"]
    assert [(e.total_samples, e.tasks) for e in heard.started][:2] == [(12, ("a", "b", "x")), (4, ("x",))]
    assert tuple(heard.finished) == record.iterations
    assert heard.threads == {threading.get_ident()}
    assert sorted(heard.attempts, key=lambda a: (a.iteration, a.task, a.sample)) == list(record.attempts)
    assert heard.others[0].tasks == ("a", "b", "x") and heard.others[1] is record


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
    monkeypatch.setattr("optimizers.adaptive.watched", lambda: True)
    learn("a", some, display_progress=False)
    assert not capsys.readouterr().err
    learn("a", some)
    assert "1: None" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert watched()
