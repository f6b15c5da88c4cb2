"""Operations leave the sources that a result may depend on, and none of what a constant removes."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.lms.embedded.influence.arrays import (
    Array,
    Unread,
    as_array,
    both,
    constant,
    either,
    joined_by,
    larger,
    minus,
    over,
    plus,
    pointwise,
    smaller,
    times,
    truths,
    unknown,
    where,
)
from pipeline.lms.embedded.influence.reductions import accumulated, contracted, product, reduced, shared, total


def leaves(*shape: int, first: int = 0) -> Array:
    """An array whose elements stand for themselves."""
    count = int(np.prod(shape))
    return unknown(np.left_shift(np.uint64(1), np.arange(first, first + count, dtype=np.uint64)).reshape(shape))


def test_an_element_of_a_result_depends_on_those_of_its_operands() -> None:
    """Operands are broadcast."""
    found = plus(leaves(2, 1), leaves(3, first=2)).sources
    assert found.tolist() == [[0b00101, 0b01001, 0b10001], [0b00110, 0b01010, 0b10010]]
    assert minus(leaves(2), 1).sources.tolist() == [1, 2] == over(leaves(2), 3).sources.tolist()


def test_constants_are_computed() -> None:
    """Positions and masks are known exactly."""
    gap = minus(constant(np.arange(3)), 1)
    assert gap.known().tolist() == [-1, 0, 1] and gap.sources.tolist() == [0, 0, 0]
    assert pointwise(np.less, gap, 0).known().tolist() == [1, 0, 0]
    with pytest.raises(Unread):
        leaves(2).known()


def test_nothing_is_left_of_what_a_constant_removes() -> None:
    """Factors of zero, sums with infinities, the other branch of a condition, and truth values."""
    x = leaves(2)
    assert times(x, as_array([0, 2])).sources.tolist() == [0, 2]
    assert plus(x, as_array([-np.inf, 0])).sources.tolist() == [0, 2]
    assert where(as_array([True, False]), x, leaves(2, first=2)).sources.tolist() == [1, 8]
    assert (
        both(x, as_array([False, True])).sources.tolist()
        == [0, 2]
        == either(truths(x), as_array([True, False])).sources.tolist()
    )
    assert larger(x, as_array([-np.inf, 0])).sources.tolist() == [1, 2] == smaller(x, np.inf).sources.tolist()


def test_a_condition_on_data_leaves_both_branches() -> None:
    """And the condition's own sources, unless both are the same constant."""
    assert where(leaves(1), leaves(1, first=1), leaves(1, first=2)).sources.tolist() == [7]
    assert where(leaves(1), 1.0, 1.0).sources.tolist() == [0]


def test_reductions_gather_along_dims() -> None:
    """A running one gathers up to each position."""
    x = leaves(2, 3)
    assert total(x, -1).sources.tolist() == [0b000111, 0b111000]
    assert reduced(x, 0, keepdim=True).sources.tolist() == [[0b001001, 0b010010, 0b100100]]
    assert accumulated(leaves(3), 0).sources.tolist() == [1, 3, 7]
    assert total(constant(np.ones(3))).known() == 3


def test_a_softmax_ignores_what_is_masked() -> None:
    """Its other elements depend on all that are not."""
    masked = where(as_array([True, True, False]), leaves(3), -np.inf)
    assert shared(masked, -1).sources.tolist() == [3, 3, 0]


def test_products_gather_what_they_contract() -> None:
    """Einstein sums and matrix products agree."""
    a, b = leaves(2, 2), leaves(2, 2, first=4)
    wanted = [[0b01010011, 0b10100011], [0b01011100, 0b10101100]]
    assert product(a, b).sources.tolist() == wanted == contracted("nk,km->nm", a, b).sources.tolist()
    assert product(a, leaves(2, first=4)).sources.tolist() == [0b110011, 0b111100]
    with pytest.raises(Unread):
        contracted("nn->n", a)


def test_too_much_is_unread() -> None:
    """Sizes are bounded, before anything is made."""
    with pytest.raises(Unread):
        plus(constant(np.zeros((300, 1))), constant(np.zeros((1, 300))))
    with pytest.raises(Unread):
        as_array("text")
    assert joined_by(np.concatenate, [leaves(1), leaves(1, first=1)], 0).sources.tolist() == [1, 2]
