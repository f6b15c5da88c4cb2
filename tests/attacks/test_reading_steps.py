"""Reading an answer takes steps in proportion to its length, whatever it consists of.

A step is a line of our code that runs, or a character that is given to a pattern or to Python's parser. They are the
same on every machine, which time is not.
"""

import re
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from signatures import adapter
from step_runtime.language import parser
from step_runtime.language.parser import parse
from step_runtime.program.limits import Limits
from step_runtime.tasks.scope import static_scope
from tests.attacks.test_verdicts import TASK
from tests.support.completions import BODY, ECHO, LINES, PROGRAM

SIZES = [2**11, pytest.param(2**15, marks=pytest.mark.slow)]

MARGIN = 2.3

"""Times the steps that a text of twice the length may take."""

SEARCHING = ("finditer", "findall", "search", "match", "fullmatch", "sub", "subn", "split")

HOSTILE = {
    "spaces": " ",
    "tabs": "\t",
    "empty lines": "\n",
    "lines of spaces": "    \n",
    "open brackets": "(",
    "nested lists": "[[",
    "open strings": "'",
    "triple quotes": '"""\n',
    "fences": "```\n",
    "named fences": "```python\n",
    "fences with programs": f"```python\n{PROGRAM}\n```\n",
    "markers": "[[ ## impl ## ]]\n",
    "unfinished markers": "[[ ## impl ",
    "other markers": "[[ ## a ## ]]\nx\n",
    "thoughts": "<think>",
    "ended thoughts": "<think>x</think>",
    "keys": "impl: |\n  x\n",
    "keys with programs": f"impl: |\n  {LINES[0]}\n",
    "JSON keys": '{"impl": "x", ',
    "statements": f"{LINES[0]}\n",
    "returns": "return E3\n",
    "functions": f"{BODY}\n",
    "function headers": "def body(E0, E1):\n",
    "steps of a list": "1. E2 = step.Zip().apply((E0, E1))\n",
    "ornaments": "> * - # ",
    "tasks": f"{ECHO}\n",
    "entities": "&lt;",
    "escapes": "\\n",
    "continued lines": "\\\n",
    "names": "a, ",
    "carriage returns": "\r",
    "a long name": "x",
    "deeper and deeper": "for i in range(3):\n",
}


class Counting:
    """A pattern that counts the characters it is given."""

    def __init__(self, pattern: re.Pattern[str], steps: list[int]) -> None:
        self._pattern, self._steps = pattern, steps

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._pattern, name)
        if name not in SEARCHING:
            return found

        def counting(*args: Any, **options: Any) -> Any:
            text = args[1] if name in ("sub", "subn") else args[0]
            start = args[1] if len(args) > 1 and isinstance(args[1], int) else 0
            end = args[2] if len(args) > 2 and name not in ("sub", "subn") else len(text)
            # One that begins at a place may end there, and then has read no more than it matched.
            matched = found(*args, **options)
            at_once = name in ("match", "fullmatch") and matched is not None
            self._steps[0] += matched.end() - start if at_once else max(0, min(end, len(text)) - start)
            return matched

        return counting


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The number of steps so far, in a list of one."""
    counted = [0]
    for module in (adapter, parser):
        for name, value in list(vars(module).items()):
            if isinstance(value, re.Pattern):
                monkeypatch.setattr(module, name, Counting(value, counted))
        if hasattr(module, "parse_python"):
            parse = module.parse_python

            def parsing(text: str, *args: Any, parse: Any = parse, **options: Any) -> Any:
                counted[0] += len(text)
                return parse(text, *args, **options)

            monkeypatch.setattr(module, "parse_python", parsing)
    yield counted


def trace(counted: list[int]) -> Any:
    ours = {adapter.__file__, parser.__file__}

    def line(frame: FrameType, event: str, _: object) -> Any:
        counted[0] += event == "line"
        return line

    return lambda frame, event, _: line if frame.f_code.co_filename in ours else None


def taken(text: str, counted: list[int]) -> int:
    counted[0] = 0
    before = sys.gettrace()
    sys.settrace(trace(counted))
    try:
        program = adapter.extract_program(text)
        adapter.sections(text)
        parser.read(program)
    finally:
        sys.settrace(before)
    return counted[0]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", HOSTILE)
def test_twice_the_text_takes_twice_the_steps(kind: str, size: int, steps: list[int]) -> None:
    """At most, with a margin for what is done once; a program after it is found all the same."""
    one, two = (
        taken(HOSTILE[kind] * (length // len(HOSTILE[kind])) + f"\n\n{PROGRAM}", steps) for length in (size, 2 * size)
    )
    assert one > size / 100, "the steps are counted"
    assert two < MARGIN * one, (one, two)


def test_a_quadratic_reader_would_be_noticed(steps: list[int]) -> None:
    """One that searches the rest of a text from each of its places."""
    pattern = Counting(re.compile("x"), steps)
    counts = []
    for length in (100, 200):
        steps[0] = 0
        for start in range(length):
            pattern.search(" " * length, start)
        counts.append(steps[0])
    assert counts[1] > MARGIN * counts[0]


LIMITS = Limits(steps=5000)

NAMES = ", ".join(f"a{number}" for number in range(2500))

LINES_PER_STEP = 30

LOOP = "for i in range(1200):"

ATTACKS = {
    "a comprehension of many names": f"{LOOP}\n  x = [0 for ({NAMES}) in ()]",
    "many names for an unknown value": f"x = foo\n{LOOP}\n  {NAMES} = x",
    "many targets of one value": f"{LOOP}\n  {NAMES.replace(', ', ' = ')} = E0",
    "a long statement that is wrong": f"x = foo\n{LOOP}\n  x.append([{NAMES}])",
    "a list that is bound again and again": f"b = [{'E0, ' * 600}]\n{LOOP}\n  x = b",
    "a list beside an unknown argument": f"u = foo\nb = [{'E0, ' * 600}]\n{LOOP}\n  x = step.Zip().apply((u, b))",
    "a list beside an unknown number": (
        f"u = foo\nb = [{'E0, ' * 600}]\n{LOOP}\n  x = step.Reshape(L=[u, b], S=1).apply(E0)"
    ),
    "many functions": f"{LOOP}\n  x = E0\n" * 50,
}


def lines_run(text: str) -> int:
    """The lines of Python that run while a program's graph is made."""
    count = 0

    def line(frame: FrameType, event: str, _: object) -> object:
        nonlocal count
        count += event == "line"
        return line

    before = sys.gettrace()
    sys.settrace(lambda frame, event, _: line)
    try:
        parse(text, static_scope(TASK), LIMITS)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("kind", ATTACKS)
def test_a_walk_is_bounded_by_its_steps(kind: str) -> None:
    """Whatever a loop repeats: names that are bound, lists that are searched, statements that are wrong."""
    text = f"{ATTACKS[kind]}\nreturn E0"
    assert lines_run(text) < LINES_PER_STEP * (LIMITS.steps + len(text) / 2)
    _, found = parse(text, static_scope(TASK), LIMITS)
    assert "steps" in {diagnostic.code for diagnostic in found}


def test_control_a_loop_within_the_limit_is_walked() -> None:
    """Its graph is whole."""
    text = "x = E0\nfor i in range(300):\n  x, y = step.Copy().apply(x)\nreturn x"
    program, found = parse(text, static_scope(TASK), LIMITS)
    assert (len(program.nodes), found) == (300, [])
