"""Walking a program takes work in proportion to its steps, which are limited, and to its length.

Work is counted in lines of Python that run, which are the same on every machine.
"""

import sys
from types import FrameType

import pytest

from step_runtime.language.parser import parse
from step_runtime.program.limits import Limits
from step_runtime.tasks.scope import static_scope
from tests.attacks.test_verdicts import TASK

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
