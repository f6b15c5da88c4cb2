"""Listeners hear a whole run in the thread that called `compile`."""

from __future__ import annotations

import threading

import pytest

from tests.support.scripted_program import Heard, learn, some


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


def test_a_listener_that_raises_ends_the_run():
    heard = Heard()
    heard.iteration_finished = lambda result: 1 // 0  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        learn("a", some, observers=[heard])
