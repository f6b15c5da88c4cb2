"""Paths keep what distinguishes programs, and forget what equal programs may do differently."""

from __future__ import annotations

from pipeline.lms.embedded.dependence.paths import (
    ABS,
    CHOICE,
    COMPARED,
    EXP,
    FALLS,
    LARGEST,
    LOG,
    LOOPED,
    MINUS,
    NOTHING,
    ORDERED,
    OVER,
    ROOT,
    ROUNDED,
    SUM,
    TIMES,
    UNSIGNED,
    ZERO,
    Path,
    is_largest,
    leaf,
    logarithm,
    permitted,
    product,
    replaced,
    simplified,
    tagged,
    union,
    unshifted,
)

A, B, C = leaf(1), leaf(2), leaf(3)


def test_a_factor_is_a_partner_and_a_constant_is_none() -> None:
    """A product marks both factors; a constant factor changes nothing."""
    assert product(A, B) == {Path(1, TIMES, 1 << 2, 1 << 2), Path(2, TIMES, 1 << 1, 1 << 1)}
    assert product(A, NOTHING) == A


def test_the_order_of_factors_counts_only_where_something_comes_between() -> None:
    """Products and sums are exchanged freely, an exponential is not, and what divides may come at any time."""
    (path,) = (path for path in product(product(A, B), C) if path.leaf == 1)
    assert (path.partners, path.first) == (1 << 2 | 1 << 3, 1 << 2 | 1 << 3)
    (path,) = (path for path in product(tagged(product(A, B), EXP), C) if path.leaf == 1)
    assert (path.partners, path.first) == (1 << 2 | 1 << 3, 1 << 2)
    (path,) = (path for path in product(product(A, tagged(B, OVER)), C) if path.leaf == 1)
    assert (path.partners, path.first) == (1 << 2 | 1 << 3, 1 << 3)


def test_nothing_is_left_of_a_product_with_zero() -> None:
    """A state that starts at zero takes no part in products before something is added to it."""
    assert product(A, ZERO) is ZERO
    assert replaced(union(leaf(200), product(A, leaf(201))), {200: B, 201: ZERO}) == B


def test_what_a_loop_multiplies_by_its_own_earlier_values_is_marked() -> None:
    """A product that is written at once has no such factor, so that it is not compared."""
    (path,) = replaced(frozenset((Path(1, TIMES, 1 << 200, 0),)), {200: A}, looped=True)
    assert path.tags == TIMES | LOOPED
    assert path.partners == 1 << 1


def test_a_root_and_an_inverse_come_in_any_order() -> None:
    """The root of an inverse is the inverse of the root."""
    assert tagged(tagged(A, ROOT), OVER) == tagged(tagged(A, OVER), ROOT)


def test_an_exponent_is_read_without_its_shift() -> None:
    """What rescales, between an old and a new largest element, is left out; a largest element alone is no shift."""
    old, new = tagged(A, LARGEST), tagged(tagged(union(A, B), LARGEST), MINUS | FALLS)
    assert unshifted(union(old, new)) == NOTHING
    assert unshifted(union(B, new)) == B
    assert unshifted(old) == old
    assert is_largest(old)
    assert not is_largest(tagged(old, EXP))


def test_the_largest_element_that_undoes_a_shift_is_left_out() -> None:
    """The log of a sum of exponentials is the same with and without the largest of its elements."""
    plain = tagged(tagged(tagged(A, EXP), SUM), LOG)
    assert union(tagged(A, LARGEST), plain) == plain
    assert union(tagged(B, LARGEST), plain) != plain


def test_the_logarithm_of_a_sum_with_an_exponential_of_the_state_has_the_state_as_it_is() -> None:
    """So a running sum of exponentials may be kept as its logarithm."""
    found = logarithm(union(tagged(leaf(256), EXP), tagged(A, EXP | SUM)), 256)
    assert found == union(leaf(256), tagged(tagged(A, EXP | SUM), LOG))


def test_what_is_discrete_may_be_computed_by_comparing_and_counting() -> None:
    """A rank by sorting permits comparisons, sums and least distances; an exponential permits none of them."""
    assert not (COMPARED | SUM) & ~permitted(CHOICE | ORDERED)
    assert not tagged_bits(ABS, LARGEST, CHOICE) & ~permitted(ROUNDED)
    assert COMPARED & ~permitted(EXP)
    assert simplified(ORDERED) == simplified(COMPARED | SUM) & ~SUM


def test_a_ratio_of_exponentials_permits_the_exponential_of_a_difference_of_logarithms() -> None:
    """A softmax may be computed by the logarithm of its denominator."""
    assert not tagged_bits(EXP, LOG, EXP) & ~permitted(EXP | OVER)
    assert tagged_bits(EXP, LOG, EXP) & ~permitted(EXP)


def tagged_bits(*operations: int) -> int:
    """The tags of a path with these operations in order."""
    flow = A
    for operation in operations:
        flow = tagged(flow, operation)
    return next(iter(flow)).tags


def test_two_falls_rise() -> None:
    """The sign of a path is that of its parts together, until an operation has none."""
    assert tagged(tagged(A, FALLS), FALLS) == A
    assert tagged(tagged(A, UNSIGNED), FALLS) == tagged(A, UNSIGNED)


def test_the_order_of_operations_counts_but_not_that_of_sums_and_products() -> None:
    """An exponential of a maximum is not a maximum of exponentials."""
    assert tagged(tagged(A, EXP), LARGEST) != tagged(tagged(A, LARGEST), EXP)
    assert tagged(tagged(A, SUM), EXP | TIMES) == tagged(tagged(A, EXP), SUM | TIMES)


def test_the_largest_element_before_an_exponential_cancels() -> None:
    """The softmax of x is that of x less its largest element."""
    shifted = union(A, tagged(tagged(A, LARGEST), MINUS | FALLS))
    assert tagged(shifted, EXP) == tagged(A, EXP)


def test_arguments_take_the_place_of_leaves_and_of_partners() -> None:
    """A function's flow on arguments is the flow of its body with the arguments in it."""
    assert replaced(product(leaf(200), leaf(201)), {200: tagged(A, EXP), 201: B}) == product(tagged(A, EXP), B)
    assert replaced(product(leaf(200), leaf(201)), {200: A, 201: NOTHING}) == A


def test_a_flow_of_many_paths_is_coarse() -> None:
    """The number of paths is bounded: one for each leaf then passes all operations."""
    many = union(
        *(tagged(A, 8 << place) for place in range(14, 36)), *(tagged(B, 8 << place) for place in range(14, 36))
    )
    assert {path.leaf for path in many} == {1, 2}
    assert len(many) == 2
