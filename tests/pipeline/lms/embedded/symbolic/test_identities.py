"""Exponentials, logarithms and absolute values of equivalent code are equal terms."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.symbolic.algebra import Algebra
from pipeline.lms.embedded.symbolic.identities import absolute, exponential, logarithm


@pytest.fixture
def algebra() -> Algebra:
    return Algebra()


def test_an_exponential_of_a_sum_is_a_product(algebra: Algebra) -> None:
    """So that a common factor cancels, as in a softmax."""
    x, y = algebra.atom("input", "x"), algebra.atom("input", "y")
    both = exponential(algebra, algebra.add(x, y))
    assert both is algebra.times(exponential(algebra, x), exponential(algebra, y))
    assert algebra.divide(both, exponential(algebra, y)) is exponential(algebra, x)
    assert exponential(algebra, algebra.zero) is algebra.one


def test_a_logarithm_undoes_an_exponential(algebra: Algebra) -> None:
    """Of a product it is a sum."""
    x, y = algebra.atom("input", "x"), algebra.atom("input", "y")
    assert logarithm(algebra, exponential(algebra, x)) is x and exponential(algebra, logarithm(algebra, x)) is x
    product = logarithm(algebra, algebra.times(x, y))
    assert product is algebra.add(logarithm(algebra, x), logarithm(algebra, y))
    assert logarithm(algebra, algebra.power(x, 3.0)) is algebra.times(algebra.number(3.0), logarithm(algebra, x))


def test_a_number_whose_exponential_overflows_stays_an_atom(algebra: Algebra) -> None:
    """No code makes the reader fail."""
    huge = exponential(algebra, algebra.number(1e4))
    assert algebra.constant(huge) is None and algebra.constant(exponential(algebra, algebra.one)) is not None


def test_an_absolute_value_is_the_same_in_both_directions(algebra: Algebra) -> None:
    """What is never negative is its own."""
    x, y = algebra.atom("input", "x"), algebra.atom("input", "y")
    assert absolute(algebra, algebra.minus(x, y)) is absolute(algebra, algebra.minus(y, x))
    assert absolute(algebra, algebra.times(algebra.number(-2.0), x)) is algebra.times(
        algebra.number(2.0), absolute(algebra, x)
    )
    for positive in (exponential(algebra, x), algebra.times(x, x), algebra.size):
        assert absolute(algebra, positive) is positive
    assert absolute(algebra, x) is not x
