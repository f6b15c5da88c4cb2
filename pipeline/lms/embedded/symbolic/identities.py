"""Equalities of exponentials, logarithms and absolute values, so that equivalent code has equal terms.

An exponential of a sum is written as a product, a logarithm of a product as a sum: then a softmax is the same with and
without subtracting the largest element, and a geometric mean is the same as a root and as a mean of logarithms. Both
sides are assumed to exist: the verifier's data is positive where a logarithm is taken.
"""

from __future__ import annotations

import math

from pipeline.lms.embedded.symbolic.algebra import Algebra, Monomial, Term

_LARGEST = 700.0
"""Beyond this the exponential of a number overflows."""
_NEVER_NEGATIVE = frozenset(("exp", "abs", "size"))


def exponential(algebra: Algebra, term: Term) -> Term:
    """The exponential of a term: the product of those of its summands."""
    product = algebra.one
    for monomial, value in term.summands:
        product = algebra.times(product, _one_exponential(algebra, monomial, value))
    return product


def _one_exponential(algebra: Algebra, monomial: Monomial, value: float) -> Term:
    if not monomial:
        return algebra.number(math.exp(value)) if abs(value) < _LARGEST else algebra.atom("exp", algebra.number(value))
    inner = _only_atom(algebra, monomial)
    if inner is not None and inner[0] == "log" and isinstance(inner[1], Term):
        return algebra.power(inner[1], value)
    return algebra.power(algebra.atom("exp", algebra.product_of(monomial)), value)


def logarithm(algebra: Algebra, term: Term) -> Term:
    """The natural logarithm of a term: of a product, the sum of those of its factors."""
    if len(term.summands) != 1 or term.summands[0][1] <= 0:
        return algebra.atom("log", term)
    monomial, value = term.summands[0]
    parts = [algebra.number(math.log(value))]
    for number, exponent in monomial:
        content = algebra.atoms[number]
        inner = content[1] if len(content) > 1 else None
        if content[0] == "exp" and isinstance(inner, Term):
            part = inner
        elif content[0] == "group" and isinstance(inner, Term):
            part = algebra.atom("log", inner)
        else:
            part = algebra.atom("log", algebra.product_of(((number, 1.0),)))
        parts.append(algebra.times(algebra.number(exponent), part))
    return algebra.add(*parts)


def absolute(algebra: Algebra, term: Term) -> Term:
    """The absolute value: of a product, the product of its factors'; of a difference, the same in both directions."""
    if len(term.summands) != 1:
        if not term.summands:
            return term
        common, rest = algebra.factored(term)
        opposite = algebra.times(rest, algebra.number(-1.0))
        whole = algebra.atom("abs", min(rest, opposite, key=lambda either: either.summands))
        return algebra.times(absolute(algebra, common), whole)
    monomial, value = term.summands[0]
    product = algebra.number(abs(value))
    for number, exponent in monomial:
        factor = algebra.product_of(((number, 1.0),))
        plain = algebra.atoms[number][0] in _NEVER_NEGATIVE or exponent % 2 == 0
        product = algebra.times(product, algebra.power(factor if plain else algebra.atom("abs", factor), exponent))
    return product


def _only_atom(algebra: Algebra, monomial: Monomial) -> tuple[object, ...] | None:
    """The atom that a product is, if it is one."""
    if len(monomial) != 1 or monomial[0][1] != 1:
        return None
    return algebra.atoms[monomial[0][0]]
