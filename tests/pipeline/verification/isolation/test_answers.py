"""Answers of worker processes hold these:

- what is returned comes back as it was;
- whatever else a worker sends is refused, and nothing of it is executed or looked up.
"""

import json
import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from pipeline.verification.isolation import answers
from pipeline.verification.isolation.answers import conforms, wrong_field
from pipeline.verification.judge import Request, judge, scopes
from pipeline.verification.pricing import price, rewrite
from step_runtime.base.errors import Diagnostic, Span, TaskError
from step_runtime.cost.chip import DEFAULT_CHIP
from step_runtime.verification.verdict import Verdict
from tests.support.oracles import solved

VERDICT = Verdict(
    passed=False,
    stage="value",
    diagnostics=(Diagnostic("value", "value", "differs", Span(1, 2, 3, 4), ("a", "b"), "hint"),),
    seconds=1.5,
)


class Evil:
    """Runs code where it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("executed",)


def sent(*content: object) -> bytes:
    return b"+" + json.dumps(content).encode()


_NAME = "step_runtime.verification.verdict:Verdict"


def _verdict(**changed: object) -> bytes:
    """A verdict as it is sent, with other fields."""
    return sent("model", _NAME, {"passed": False, "stage": "run", "diagnostics": [], "seconds": 0.5, **changed})


def _finding(**changed: object) -> bytes:
    """A verdict with a finding that has other fields."""
    fields = {"stage": "run", "code": "run", "message": "m", "span": None, "details": [], "hint": None}
    return _verdict(diagnostics=[fields | changed])


FORGED = {
    "a pickle": pickle.dumps((True, Evil())),
    "a pickle for a result": b"+" + pickle.dumps(Evil()),
    "nothing": b"",
    "no JSON": b"+{",
    "an object": b'+{"passed": true}',
    "an unknown tag": sent("set", 1),
    "a tag that is none": sent(1, 2),
    "no tag": sent(),
    "a class with other fields": sent("step_runtime.base.errors:Span", 1),
    "a span in words": sent("step_runtime.base.errors:Span", "1", 2, 3, 4),
    "a verdict with a further field": _verdict(right=True),
    "a verdict that passed in other words": _verdict(passed="perhaps"),
    "a verdict of a stage of numbers": _verdict(stage=3),
    "a verdict without a list of findings": _verdict(diagnostics=None),
    "a verdict with another finding": _verdict(diagnostics=["x"]),
    "a finding of numbers": _finding(message=3),
    "a finding with details of numbers": _finding(details=[1]),
    "a finding at a place in words": _finding(span={"line": "one", "column": 2, "end_line": 3, "end_column": 4}),
    "a time that is no number": _verdict(seconds=float("nan")),
    "a time without end": _verdict(seconds=10**400),
    "a class of Python's": sent("builtins:exec", "1"),
    "a class of torch's": sent("torch:Tensor", 1),
    "a function": sent("step_runtime.verification.verify:verify", 1, 2, 3, 4),
    "what a module of ours has imported": sent("pipeline.base.files:Path", "x"),
    "a module of ours that is none": sent("pipeline.nowhere:Verdict", "x"),
    "a model that is none": sent("model", "pipeline.verification.pool:WorkerPool", {}),
    "a model of another content": sent("model", _NAME, {}),
    "a function that was not sent": sent("same", 3),
    "a large power": sent("dim", ["Pow", "M", [10**6, 1]]),
    "a power of a power": sent("dim", ["Pow", ["Pow", "M", [9, 1]], [9, 1]]),
    "a tower of powers": sent(
        "dim", ["Pow", ["Pow", ["Pow", ["Pow", ["Pow", [2, 1], [64, 1]], *[[64, 1]]], [64, 1]], [64, 1]], [64, 1]]
    ),
    "a sum of powers of powers": sent("dim", ["Pow", ["Add", ["Pow", [2, 1], [64, 1]], "M"], [2, 1]]),
    "a large number": sent("dim", [2**64, 1]),
    "a product of many numbers": sent("dim", ["Mul", *[[3**40, 1]] * 200_000]),
    "the largest of many dims": sent("dim", ["Max", *(f"a{number}" for number in range(3000))]),
    "another operation": sent("dim", ["sympify", "M"]),
    "a division by zero": sent("dim", [1, 0]),
    "a dict of no pairs": sent("dict", 1),
    "a key that is none": sent("dict", [["list"], 1]),
    "deep JSON": b"+" + b"[" * 100_000,
    "an unknown kind": b"?[]",
    "an exception without a class": b'-["x"]',
    "an exception of numbers": b"-[1, 2]",
    "a deep exception": b"-" + b"[" * 100_000,
}


@pytest.mark.parametrize("attack", FORGED)
def test_an_answer_is_data(attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no answer is refused, and nothing is executed; the control is read."""
    monkeypatch.chdir(tmp_path)
    returned, verdict = answers.read(answers.returned(VERDICT))
    assert returned
    assert (verdict, verdict.seconds) == (VERDICT, 1.5)
    with pytest.raises(ValueError, match="not an answer"):
        answers.read(FORGED[attack])
    assert not [*tmp_path.iterdir()]


VALUES: list[Any] = [
    None, True, 3, 10**40, -0.5, float("inf"), "text \ud800 \u202e", [], (), (1, [2, ("3",)]), {"a": 1, (1, 2): [3]},
    frozenset({1, 2}), ["tuple", 1], ("list",), {"list": ["dict"]}, VERDICT,
    Request(path="nowhere.yaml").unusable("no such file"),
    Diagnostic("run", "x", "y \udcff"),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:30])
def test_data_comes_back_as_it_was(value: Any) -> None:
    """Of each type that JSON has no word for, too."""
    returned, found = answers.read(answers.returned(value))
    assert returned
    assert found == value
    assert type(found) is type(value)


def test_what_workers_find_comes_back_as_it_was() -> None:
    """Verdicts, scopes, costs and programs of a task of the benchmark; a function stays the same as itself."""
    task, text = next(iter(solved()))
    asked = task.name, task.statement
    request = Request(task=task.name, statement=task.statement, text=text, stress=True)
    for found in (judge(request), judge(replace(request, text="return E0"))):
        assert answers.read(answers.returned(found))[1] == found
    assert rewrite(*asked, DEFAULT_CHIP, text, "traffic", 5) == _there_and_back(
        rewrite(*asked, DEFAULT_CHIP, text, "traffic", 5)
    )
    priced = price(*asked, DEFAULT_CHIP, text, {})
    assert repr(_there_and_back(priced)) == repr(priced)
    (scope, *_) = _there_and_back(scopes(*asked))
    assert repr(scope) == repr(scopes(*asked)[0])
    shared, again = _there_and_back([*scope.fns.values()] * 2)[:: len(scope.fns)]
    assert shared is again


def _there_and_back(value: Any) -> Any:
    return answers.read(answers.returned(value))[1]


@pytest.mark.parametrize(
    "name", ["os:system", "builtins:exec", "builtins:SystemExit", "subprocess:Popen", "builtins:open", "x"]
)
def test_an_exception_s_class_is_not_looked_up(name: str) -> None:
    """Only Python's own exceptions and this project's are raised again; others are a `RuntimeError` that says why."""
    returned, error = answers.read(b"-" + json.dumps([name, "touch executed"]).encode())
    assert (returned, type(error)) == (False, RuntimeError)
    assert "touch executed" in str(error)


def test_exceptions_are_raised_again_where_they_are_known() -> None:
    """By class and message."""
    assert type(answers.read(answers.raised(KeyError("k")))[1]) is KeyError
    known = answers.read(answers.raised(TaskError("wrong")))[1]
    assert (type(known), str(known)) == (TaskError, "wrong")
    assert type(answers.read(answers.raised(UnicodeDecodeError("utf-8", b"x", 0, 1, "why")))[1]) is RuntimeError
    assert answers.read(answers.raised(ValueError("\ud800")))[1].args == ("\ud800",)


def test_a_value_that_is_not_data_is_not_sent() -> None:
    """It is the worker's error, and says so."""
    for value in (object(), b"bytes", Path("x"), Evil(), answers):
        with pytest.raises(TypeError, match="not data"):
            answers.returned(value)


CASES: list[tuple[Any, list[Any], list[Any]]] = [
    (bool, [True], [1, "yes", None]),
    (int, [1], [True, 1.0, "1"]),
    (float, [1, 0.5], [True, "1", float("nan"), float("inf"), 10**400]),
    (str | None, ["x", None], [1]),
    (Literal["run", "value"], ["run"], ["other", None]),
    (tuple[int, ...], [(), (1, 2)], [[1], ("x",)]),
    (tuple[int, str], [(1, "x")], [(1,), ("x", 1)]),
    (Mapping[str, float], [{}, {"a": 1}], [[], {1: 1}, {"a": "b"}]),
    (Sequence[str], [[], ("a",)], ["text", [1]]),
    (Span | None, [Span(1, 2, 3, 4), None], [(1, 2, 3, 4)]),
    (Any, [1, None, "x"], []),
]


@pytest.mark.parametrize(("hint", "right", "wrong"), CASES)
def test_values_of_a_type(hint: Any, right: list[Any], wrong: list[Any]) -> None:
    """Those of it, and those of none."""
    assert [value for value in right if not conforms(value, hint)] == []
    assert [value for value in wrong if conforms(value, hint)] == []


def test_the_first_wrong_field_is_named() -> None:
    """And none of an object whose fields are as declared."""
    assert wrong_field(Span(1, 2, 3, 4)) is None
    assert wrong_field(Span(1, "no", 3, 4)) == "column"  # type: ignore[arg-type]
