"""Paths keep what distinguishes programs, and forget what equal programs may do differently."""

from __future__ import annotations

from pipeline.lms.embedded.dependence.paths import (
    CONSTANT,
    EXP,
    FALLS,
    LARGEST,
    LOG,
    MINUS,
    NOTHING,
    OVER,
    SUM,
    TIMES,
    UNSIGNED,
    Path,
    exponential,
    factor,
    leaf,
    maximal,
    multiplied,
    product,
    quotient,
    replaced,
    scaled,
    tagged,
    union,
    unscaled,
)

A, B, C = leaf(1), leaf(2), leaf(3)


def test_a_factor_is_a_partner_and_a_constant_is_none() -> None:
    """A product marks both factors; a constant factor changes nothing."""
    assert product(A, B) == {Path(1, TIMES, 1 << 2, 1 << 2), Path(2, TIMES, 1 << 1, 1 << 1)}
    assert product(A, NOTHING) == A


def test_a_constant_factor_is_a_partner_of_all_that_it_multiplies() -> None:
    """Whichever factor it belongs to, and neither a product nor the first partner."""
    constant = 1 << CONSTANT
    (path,) = scaled(A, constant)
    assert path == Path(1, 0, constant, 0) and not multiplied(path.partners)
    assert product(scaled(A, constant), B) == product(A, scaled(B, constant)) == scaled(product(A, B), constant)
    assert quotient(scaled(A, constant), B) == scaled(quotient(A, B), constant)
    given = {200: scaled(A, constant), 201: B}
    assert replaced(product(leaf(200), leaf(201)), given) == scaled(product(A, B), constant)
    assert factor(union(scaled(A, constant), B)) == 1 << 1 | 1 << 2
    assert unscaled(scaled(A, constant)) == A == scaled(A, 0) and unscaled(B) is B


def test_paths_that_are_multiplied_by_less_say_nothing_beside_others() -> None:
    """Only the first steps of a recurrence are; what passes other operations stays."""
    less, more = product(A, B), product(A, B, C)
    assert maximal(union(less, more)) == more
    assert maximal(union(A, less)) == union(A, less)


def test_a_product_knows_its_first_partner_but_not_what_divides_it() -> None:
    """The order of factors is kept, the time of a normalization is not."""
    (path,) = (path for path in product(product(A, B), C) if path.leaf == 1)
    assert (path.partners, path.first) == (1 << 2 | 1 << 3, 1 << 2)
    (path,) = (path for path in product(quotient(A, B), C) if path.leaf == 1)
    assert (path.partners, path.first) == (1 << 2 | 1 << 3, 1 << 3)


def test_a_product_of_several_values_has_no_order() -> None:
    """As in an `einsum`: each is multiplied by all others first."""
    (path,) = (path for path in product(A, B, C) if path.leaf == 1)
    assert (path.partners, path.first) == (1 << 2 | 1 << 3, 1 << 2 | 1 << 3)


def test_masks_by_position_leave_no_trace_on_each_other() -> None:
    """Two of them together are one mask, and a position is nothing's first partner."""
    place = leaf(0)
    assert product(place, tagged(place, FALLS)) == union(place, tagged(place, FALLS))
    assert {path.first for path in replaced(product(leaf(200), leaf(201)), {200: A, 201: place})} == {0, 1 << 1}


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


def test_the_largest_of_several_exponentials_stays() -> None:
    """What is taken off before the exponentials and after them is no such shift."""
    ratio = tagged(tagged(A, MINUS | FALLS), EXP)
    assert tagged(tagged(ratio, LARGEST), MINUS | FALLS)


def test_arguments_take_the_place_of_leaves_and_of_partners() -> None:
    """A function's flow on arguments is the flow of its body with the arguments in it."""
    assert replaced(product(leaf(200), leaf(201)), {200: tagged(A, EXP), 201: B}) == product(tagged(A, EXP), B)
    assert replaced(product(leaf(200), leaf(201)), {200: A, 201: NOTHING}) == A


def test_a_flow_of_many_paths_is_coarse() -> None:
    """The number of paths is bounded: one for each leaf then passes all operations."""
    many = union(*(tagged(A, 8 << place) for place in range(1, 30)), *(tagged(B, 8 << place) for place in range(1, 30)))
    assert {path.leaf for path in many} == {1, 2}
    assert len(many) == 2


def test_the_exponential_of_a_sum_is_a_product() -> None:
    """Each summand is a factor, and multiplied by the others."""
    one, other = exponential(union(A, B)), product(exponential(A), exponential(B))
    assert {path._replace(first=0) for path in one} == {path._replace(first=0) for path in other}
    assert exponential(leaf(0)) == tagged(leaf(0), EXP)


def test_a_logarithm_and_an_exponential_behind_it_cancel() -> None:
    """What is taken off between them divides; an operation between them keeps both, and so does the other order."""
    assert tagged(tagged(A, LOG), EXP) == A
    assert tagged(tagged(tagged(A, SUM | LOG), MINUS | FALLS), EXP) == tagged(A, SUM | OVER | FALLS)
    assert tagged(tagged(tagged(A, LOG), OVER), EXP) not in (A, tagged(A, OVER))
    assert tagged(tagged(A, EXP), LOG) != A


def test_a_logarithm_of_exponentials_of_such_is_one() -> None:
    """However often it is folded."""
    once = tagged(A, EXP | SUM)
    once = tagged(once, LOG)
    assert tagged(tagged(once, EXP), LOG) == once


def test_too_many_paths_lose_their_signs_before_their_operations() -> None:
    """Only then is one left for each leaf."""
    every = [Path(1, (32 << n) | sign, 0, 0) for n in range(30) for sign in (0, FALLS)]
    assert union(frozenset(every), A) >= {Path(1, (32 << n) | UNSIGNED, 0, 0) for n in range(30)}
