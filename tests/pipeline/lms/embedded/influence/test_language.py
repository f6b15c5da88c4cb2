"""Python's operators, indices and functions on arrays of sources, numbers and sequences."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from pipeline.lms.embedded.influence.arrays import Array, Unread, constant, unknown
from pipeline.lms.embedded.influence.language import (
    BUILT_IN,
    UnsureRange,
    attribute,
    binary,
    compared,
    decided,
    decision,
    element,
    items_of,
    method,
    reading,
    unary,
    whole,
)

X = unknown(np.array([[1, 2], [4, 8]], np.uint64))


def test_operators_compute_numbers_and_follow_tensors() -> None:
    """A decision needs a constant."""
    assert binary(ast.Mult(), 3, 4) == 12 and binary(ast.Pow(), 2, 3) == 8 and unary(ast.USub(), 2) == -2
    assert binary(ast.MatMult(), X, X).sources.tolist() == [[7, 11], [13, 14]]
    assert compared(ast.Lt(), 1, 2) is True and compared(ast.Gt(), constant([1, 3]), 2).known().tolist() == [0, 1]
    assert decided(constant(1.0)) and whole(constant(3.0)) == 3
    with pytest.raises(Unread):
        decided(unknown(np.array(1, np.uint64)))


@pytest.mark.parametrize(("op", "one", "other"), [("Pow", 2, 10**6), ("Mult", [0], 10**9), ("Mult", 1 << 5000, 2)])
def test_numbers_and_sequences_without_end_are_unread(op: str, one: object, other: object) -> None:
    """A task's text may not exhaust memory."""
    with pytest.raises((Unread, KeyError)):
        binary(getattr(ast, op)(), one, other)


def test_constant_indices_select_exactly() -> None:
    """An index of data may select any row."""
    assert element(X, (slice(None), -1)).sources.tolist() == [2, 8] and element([5, 6], 1) == 6
    assert element(X, constant([1, 0])).sources.tolist() == [[4, 8], [1, 2]]
    assert element(X, unknown(np.array([16], np.uint64))).sources.tolist() == [[21, 26]]


def test_attributes_and_methods() -> None:
    """Those of tensors, lists and pairs."""
    assert attribute(X, "shape") == (2, 2) and attribute(X, "T").sources.tolist() == [[1, 4], [2, 8]]
    assert attribute((X, 1), "indices") == 1 and attribute((1, 2, 3), "S") == 2 and method(X, "size", [0], {}) == 2
    items: list[int] = []
    method(items, "append", [3], {})
    assert items == [3] and method(X, "sum", [0], {}).sources.tolist() == [5, 10]


def test_functions_of_python() -> None:
    """Of numbers they give numbers; a sum of tensors is one."""
    assert list(BUILT_IN["range"](constant(2.0))) == [0, 1] and BUILT_IN["max"](2, 3) == 3
    assert BUILT_IN["sum"]([X, X]).sources.tolist() == X.sources.tolist()
    assert [type(one) for one in items_of(X)] == [Array, Array]


def test_what_misread_code_raises_is_unread() -> None:
    """Other errors are not hidden."""
    with pytest.raises(Unread), reading():
        element([], 1)
    with pytest.raises(OSError), reading():
        raise OSError


def test_decisions_of_data_stay_open() -> None:
    """A decision that is needed at once is unread."""
    answer = decision(unknown(np.array([3], np.uint64)))
    assert isinstance(answer, Array) and answer.sources == 3 and decision(constant(True)) is True
    assert isinstance(BUILT_IN["range"](unknown(np.array(1, np.uint64))), UnsureRange)


def test_sizes_that_data_decide_are_unread() -> None:
    """A mask selects nobody knows how many elements."""
    chosen = element(X, compared(ast.Gt(), X, 0))
    assert method(chosen, "sum", [], {}).sources == 15
    for size in (lambda: attribute(chosen, "shape"), lambda: items_of(chosen), lambda: method(chosen, "numel", [], {})):
        with pytest.raises(Unread):
            size()
