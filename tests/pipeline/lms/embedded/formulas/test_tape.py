"""A tape keeps each formula once, and gives the residues of all."""

from __future__ import annotations

import numpy as np

from pipeline.lms.embedded.formulas.residues import PRIME, Kind, constants, first, symbols
from pipeline.lms.embedded.formulas.tape import Tape


def test_the_same_operation_on_the_same_operands_is_the_same_formula() -> None:
    """As are constants and symbols of a name."""
    tape = Tape(0)
    x = tape.symbols("x", (2, 3), Kind())
    again, other = tape.apply("add", x, tape.constants(2.0)), tape.apply("add", x, tape.constants(2.0))
    assert again is other and (tape.symbols("x", (2, 3), Kind()) == x).all()
    assert tape.count == 6 + 1 + 6


def test_operands_are_given_in_sets() -> None:
    """A function is read once, and its formulas are computed for many elements of a stream."""
    tape = Tape(2)
    total = tape.apply("add", np.array([0]), np.array([1]))
    assert total is not None
    residues, _ = tape.evaluated(constants(np.array([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]])))
    assert residues[total].tolist() == [[11, 22, 33]]


def test_worlds_have_symbols_of_their_own_and_the_same_constants() -> None:
    """So have the formulas that are made of them."""
    tape = Tape(0)
    x = tape.symbols("x", (4,), Kind())
    more = tape.apply("add", x, tape.constants(1.0))
    for world in (0, 2):
        residues, _ = tape.evaluated(world=world)
        assert (residues[more, 0] == (first(symbols("x", (4,), Kind(), world)) + 1) % PRIME).all()


def test_the_square_of_a_root_is_what_it_is_taken_of() -> None:
    """Although the sign of a residue says nothing about that of a sum of squares."""
    tape = Tape(0)
    x = tape.symbols("x", (5,), Kind())
    root = tape.apply("sqrt", x)
    assert root is not None
    square = tape.apply("multiply", root, root)
    assert square is not None and (square == x).all()


def test_a_division_may_be_left_for_later() -> None:
    """The inverses of some blocks are taken to be one."""
    tape = Tape(0)
    x, y = tape.symbols("x", (3,), Kind()), tape.symbols("y", (3,), Kind())
    inverse = tape.apply("inverse", y)
    assert inverse is not None
    quotient = tape.apply("multiply", x, inverse)
    block = next(place for place, block in enumerate(tape.blocks) if block.op == "inverse")
    assert (tape.evaluated(skipped=frozenset([block]))[0][quotient] == tape.evaluated()[0][x]).all()


def test_a_guard_is_nothing_in_the_first_world() -> None:
    """And its own number in the others."""
    tape = Tape(0)
    guard = tape.guards(np.array([1e-6]))
    assert tape.evaluated()[0][guard, 0] == 0 and tape.evaluated(world=1)[0][guard, 0] != 0
