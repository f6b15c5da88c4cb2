"""Residues are a field with exponentials, roots and signs."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.lms.embedded.formulas.residues import (
    DRAWN,
    LOG,
    ORDER,
    PRIME,
    Kind,
    Residues,
    constants,
    either,
    encoded,
    exponent,
    exponential,
    first,
    packed,
    power,
    second,
    signed,
    symbols,
)

X = symbols("x", (50,), Kind(), 0)


def residues(*numbers: int) -> Residues:
    return np.array(numbers, np.uint64)


def test_symbols_differ_by_name_place_and_world() -> None:
    """And are the same each time."""
    every = np.concatenate([first(symbols(name, (50,), Kind(), world)) for name in "xy" for world in (0, 1)])
    assert len(np.unique(every)) == 200 and (symbols("x", (50,), Kind(), 0) == X).all()


def test_what_is_known_of_an_input_holds_of_its_symbols() -> None:
    """Masks are of zeros and ones, rows of a Multihot have as many ones as they may, positive numbers are squares."""
    mask = first(symbols("m", (200,), Kind(ones=DRAWN), 0))
    assert set(mask.tolist()) == {0, 1}
    assert (first(symbols("m", (20, 5), Kind(ones=(1, 1)), 0)).sum(1) == 1).all()
    assert set(first(symbols("m", (50, 5), Kind(ones=(0, -1)), 0)).sum(1).tolist()) > {1, 2}
    assert (power(first(symbols("p", (50,), Kind(positive=True), 0)), ORDER) == 1).all()


@pytest.mark.parametrize("value", [3.0, 0.25, -2.5, 1 / 3, 0.0])
def test_a_fraction_is_a_quotient_of_numbers(value: float) -> None:
    """In both residues."""
    times, word = 12, encoded(value)
    assert word >> 32 == round(value * times) * pow(times, -1, PRIME) % PRIME
    assert word % (1 << 32) == round(value * times) * pow(times, -1, ORDER) % ORDER


def test_the_root_of_a_fraction_is_one() -> None:
    """As a scale of one by the root of a size."""
    root = encoded(7**-0.5) >> 32
    assert root * root % PRIME == pow(7, -1, PRIME) and encoded(-(7**-0.5)) >> 32 == PRIME - root
    assert constants(np.array([[2.0, 9.0], [3.0, 2.0]])).shape == (2, 2)


def test_an_exponential_of_a_sum_is_a_product() -> None:
    """Modulo the order of its base."""
    one, other = second(X)[:25], second(X)[25:]
    assert (exponential((one + other) % np.uint64(ORDER)) == exponential(one) * exponential(other) % PRIME).all()


@pytest.mark.parametrize("count", [3, 50])
def test_powers_are_the_same_one_by_one_and_together(count: int) -> None:
    """An inverse is one, too."""
    values = first(X)[:count]
    assert power(values, PRIME - 2).tolist() == [pow(int(one), -1, PRIME) for one in values]


def test_opposites_have_opposite_numbers_and_exponents() -> None:
    """And small numbers are their own."""
    values = first(X)
    opposite = np.uint64(PRIME) - values
    assert (signed(values) == -signed(opposite)).all()
    assert ((exponent(values) + exponent(opposite)) % np.uint64(ORDER) == 0).all()
    assert exponent(residues(0, 1, 7, PRIME - 1)).tolist() == [0, 1, 7, ORDER - 1]


def test_a_test_chooses_one_of_two() -> None:
    """Also of those with a logarithm, of which the first residue counts."""
    one, other = packed(residues(5, 6), residues(5, 6)), packed(residues(8, 9), residues(8, 9) | LOG)
    assert either(packed(residues(1, 1), residues(1, 1)), one, other).tolist() == one.tolist()
    assert first(either(packed(residues(0, 0), residues(0, 0)), one, other)).tolist() == [8, 9]
