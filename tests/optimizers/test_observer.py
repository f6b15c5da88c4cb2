"""Listeners hear a whole run in the thread that called `compile`."""

import sys
import threading
from typing import Any

import dspy
import pytest
from dspy import lm15
from dspy.utils.callback import BaseCallback
from dspy.utils.exceptions import LMAuthError

from optimizers.progress import watched
from tests.support.scripted_program import Heard, ScriptedEngine, failing, learn, shown_two, some, tasks


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


class Noting(BaseCallback):
    def __init__(self) -> None:
        self.started: list[Any] = []
        self.ended: list[Any] = []

    def on_evaluate_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        assert isinstance(instance, dspy.Evaluate)
        self.started.append((call_id, inputs))

    def on_evaluate_end(self, call_id: str, outputs: Any, exception: Exception | None = None) -> None:
        self.ended.append((call_id, outputs, exception))


def test_every_iteration_is_an_evaluation_whose_score_is_the_share_of_solved_tasks():
    noting = Noting()
    with dspy.context(callbacks=[noting]):
        compiled = learn("abcx", shown_two)
    assert [call_id for call_id, _ in noting.started] == [call_id for call_id, *_ in noting.ended]
    solved = [result.solved_total for result in compiled.experience.iterations]
    assert [outputs.score for _, outputs, _ in noting.ended] == [100 * number / 4 for number in solved]
    assert solved[0] == 3 and solved[-1] == 4
    (_, inputs), (_, outputs, _) = noting.started[0], noting.ended[0]
    assert [example.task for example in inputs["devset"]] == list("abcx") and inputs["program"].predictors()
    assert [(example.task, prediction.answer, score) for example, prediction, score in outputs.results] == [
        ("a", "right a", 1.0), ("b", "right b", 1.0), ("c", "right c", 1.0), ("x", "wrong", 0.0),
    ]  # fmt: skip


def test_an_evaluation_that_an_exception_ends_is_ended_too():
    noting = Noting()

    class Stopping(dspy.Module):
        pass

    with dspy.context(callbacks=[noting]), pytest.raises(LMAuthError):
        learn("ab", some, engine=failing(lm15.AuthError("bad key"), 0))
    assert len(noting.started) == len(noting.ended) == 1


def test_a_callback_that_fails_is_named_and_ignored(caplog):
    class Failing(BaseCallback):
        def on_evaluate_start(self, **_: Any) -> None:
            raise ZeroDivisionError("boom")

    with dspy.context(callbacks=[Failing()]):
        assert learn("a", some, engine=ScriptedEngine(some, 4)).experience.solved == ("a",)
    assert "on_evaluate_start of Failing failed: boom" in caplog.messages


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
