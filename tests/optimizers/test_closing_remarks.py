"""What the result of a run does not show is said."""

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dspy
import pytest

from optimizers import Entry, TokenCount
from optimizers.closing_remarks import unshown_answers
from tests.support.scripted_program import ScriptedEngine, Solver, answer, learn, tasks

NAMES = ("hard", "harder", "hardest", "easy", "easier", "easiest")
RIGHT = {"hard": 2, "harder": 2, "hardest": 1, "easy": 3, "easier": 3, "easiest": 4}


def classified(**compiling: Any) -> None:
    """Two classes, of which the hardest tasks have one."""
    learn(
        NAMES, lambda task, *_: RIGHT.get(task, 0), metric=lambda example, prediction: prediction.answer != "wrong",
        engine=ScriptedEngine(lambda task, *_: RIGHT.get(task, 0), 4, lambda request, task, right: answer(
            "wrong" if not right else "red" if task.startswith("hard") else "blue")),
        compiling=compiling, granularity=2,
    )  # fmt: skip


def test_classes_that_no_demonstration_has_are_warned_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr where no logging is set up, with the levels among which a validation set chooses; nothing with one."""
    for name in (None, "optimizers"):  # commands of earlier tests may have set it up
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
    classified()
    (warning,) = [line for line in capsys.readouterr().err.splitlines() if "compiled program shows" in line]
    assert warning == (
        "the compiled program shows 3 of 6 solved tasks, none with answer: blue; a valset chooses among 1_1, 12_1"
    )
    classified(valset=tasks("easy"))
    assert "compiled program shows" not in capsys.readouterr().err


def test_answers_that_are_all_different_are_no_classes(caplog: pytest.LogCaptureFixture) -> None:
    """Each task has its own; what is not shown is not missing."""
    learn(NAMES, lambda task, *_: RIGHT[task], granularity=2)
    assert "compiled program shows" not in caplog.text


def test_labels_of_the_examples_are_classes_and_what_a_program_says_besides_is_not() -> None:
    """Where examples have no labels, all fields may be classes."""
    colors = ("red", "red", "blue", "blue")
    solved = [
        Entry(str(n), {}, {"color": color, "reasoning": "Let"}, 1, 4, 0.7, 0, 0.7, 0, TokenCount())
        for n, color in enumerate(colors)
    ]
    assert unshown_answers(solved, solved[:2], {"color"}) == {"color": ["blue"]}
    assert unshown_answers(solved, [], {"color"}) == {"color": ["red", "blue"]}
    assert unshown_answers(solved, [], set()) == {"color": ["red", "blue"], "reasoning": ["Let"]}


def test_requests_that_no_run_can_count_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """A thread of the program's own sees the global settings, not those of the run."""

    class Threaded(Solver):
        def forward(self, task: str) -> Any:
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(dspy.Predict("task -> answer").__call__, task=task, lm=lm).result()

    engine = ScriptedEngine(lambda *_: 4, 4)
    lm = dspy.LM("scripted", engine=engine, cache=False)
    compiled = learn("ab", lambda *_: 4, student=Threaded())
    assert engine.calls == 8 and compiled.experience.tokens == {}
    assert "no request of the program was counted" in caplog.text
