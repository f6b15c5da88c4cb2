"""Terms are sums of products; equal ones are the same object, whatever the order they were made in."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.symbolic.algebra import Algebra, Term


@pytest.fixture
def algebra() -> Algebra:
    return Algebra()


def xy(algebra: Algebra) -> tuple[Term, Term]:
    return algebra.atom("input", "x"), algebra.atom("input", "y")


def test_sums_and_products_are_commutative_and_distribute(algebra: Algebra) -> None:
    """Equal terms are one."""
    x, y = xy(algebra)
    assert algebra.add(x, y) is algebra.add(y, x) and algebra.times(x, y) is algebra.times(y, x)
    assert algebra.times(algebra.add(x, y), x) is algebra.add(algebra.times(x, x), algebra.times(x, y))
    assert algebra.minus(x, x) is algebra.zero and algebra.times(x, algebra.zero) is algebra.zero
    assert algebra.minus(x, y) is not algebra.minus(y, x)


def test_powers_join_and_cancel(algebra: Algebra) -> None:
    """A square of a sum is multiplied out; a root of a square product is taken apart again."""
    x, y = xy(algebra)
    assert algebra.times(x, algebra.power(x, -1.0)) is algebra.one
    assert algebra.power(algebra.power(x, 2.0), 0.5) is x
    square = algebra.power(algebra.add(x, y), 2.0)
    assert square is algebra.times(algebra.add(x, y), algebra.add(x, y)) and len(square.summands) == 3
    assert algebra.divide(algebra.times(x, y), y) is x


def test_only_constants_have_a_value(algebra: Algebra) -> None:
    """Nothing is the constant 0."""
    x, _ = xy(algebra)
    assert algebra.constant(algebra.number(2.5)) == 2.5 and algebra.constant(algebra.zero) == 0.0
    assert algebra.constant(x) is None and algebra.constant(algebra.add(x, algebra.one)) is None


def test_an_atom_is_known_by_its_content(algebra: Algebra) -> None:
    """Its arguments may be terms."""
    x, y = xy(algebra)
    assert algebra.atom("sin", x) is algebra.atom("sin", x)
    assert algebra.atom("sin", x) is not algebra.atom("sin", y)
