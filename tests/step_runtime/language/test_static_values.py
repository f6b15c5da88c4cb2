"""Values of a program's expressions: kinds in words, unknown parts, and arithmetic on ints."""

import ast
from typing import Any

import pytest
import sympy

from step_runtime.language.static_values import UNKNOWN, StreamRef, are_streams, integer, is_unknown, kind, too_large
from tests.support.samples import general_scope


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1, 2], "a list of 2 values"),
        ((), "a tuple of 0 values"),
        (general_scope().fns["fn_sum"], "the function fn_sum"),
        (3, "the int 3"),
        (sympy.Integer(4), "the int 4"),
        (sympy.Symbol("M") + 1, "the dim M + 1"),
        (StreamRef(0), "a stream"),
    ],
)
def test_a_value_is_named_by_its_kind(value: Any, words: str) -> None:
    """A constant expression is an int, whatever computed it."""
    assert kind(value) == words


def test_what_is_unknown_at_any_depth_makes_the_whole_unknown() -> None:
    """Lists that hold themselves are looked into once; the length of each is spent."""
    spent: list[int] = []
    loop: list[Any] = [1]
    loop.append(loop)
    assert not is_unknown(loop, spent.append) and not is_unknown([(1, [2])], spent.append)
    assert spent == [2, 1, 2, 1]
    loop.append((3, [UNKNOWN]))
    assert is_unknown(loop, spent.append) and is_unknown(UNKNOWN, spent.append)


def test_streams_are_a_sequence_of_streams_alone() -> None:
    """Neither nothing, nor a single stream, nor a mixture."""
    one, other = StreamRef(0), StreamRef(1)
    assert are_streams([one, other]) and are_streams((one,))
    assert not any(map(are_streams, ([], one, [one, 2], [[one]])))


@pytest.mark.parametrize(("op", "result"), [(ast.Add(), 5), (ast.Sub(), -9), (ast.Mult(), -14), (ast.FloorDiv(), -1)])
def test_ints_are_computed_as_python_does(op: ast.operator, result: int) -> None:
    """Division rounds down, also of negative numbers."""
    assert integer(op, -2, 7) == result


def test_a_huge_int_is_described_by_its_bits() -> None:
    """Its digits are never written out."""
    assert too_large(2**70_000) == "an int of 70001 bits; the limit is 63"
