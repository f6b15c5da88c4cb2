"""What a piece of PyTorch code computes, as sums of products, so that differently written code can be compared.

A term is a polynomial with numeric coefficients and exponents over atoms: inputs, weights, and operations that are
no arithmetic (exp, a sum along a dim, a selection), whose arguments are terms again. Shapes are not part of it:
`unsqueeze`, `transpose` and the like leave a term as it is. Equal terms are one object, so that `is` and hashing
by identity compare them. Terms are a way to read, no proof: what they say is a hint for the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

Monomial: TypeAlias = tuple[tuple[int, float], ...]
"""Atoms by number, each with its exponent."""

_CONSTANT = frozenset(("size", "sum", "amax", "prod"))
_MOST_PRODUCTS = 48
"""A product that would have more summands stays a product of opaque atoms."""


class Term:
    """A polynomial; made by `Algebra` only."""

    __slots__ = ("summands",)

    def __init__(self, summands: tuple[tuple[Monomial, float], ...]) -> None:
        self.summands = summands


class Algebra:
    """Makes and knows all terms of one task. Atoms are numbered as they are met."""

    def __init__(self) -> None:
        self._terms: dict[tuple[tuple[Monomial, float], ...], Term] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        self.atoms: dict[int, tuple[object, ...]] = {}
        self.one = self.number(1.0)
        self.zero = self.number(0.0)
        self.size = self.atom("size")
        """Any size that code mentions: which one it is, shapes tell better."""

    def number(self, value: float) -> Term:
        """A constant."""
        return self._term({(): float(value)})

    def atom(self, *content: object) -> Term:
        """Something without inner structure for arithmetic: a name and its arguments, terms among them."""
        number = self._numbers.setdefault(content, len(self._numbers))
        self.atoms[number] = content
        return self._term({((number, 1.0),): 1.0})

    def constant(self, term: Term) -> float | None:
        """The value of a constant term; None for others."""
        if not term.summands:
            return 0.0
        monomial, value = term.summands[0]
        return value if len(term.summands) == 1 and not monomial else None

    def add(self, *terms: Term) -> Term:
        """The sum."""
        total: dict[Monomial, float] = {}
        for term in terms:
            for monomial, value in term.summands:
                total[monomial] = total.get(monomial, 0.0) + value
        return self._term(total)

    def minus(self, a: Term, b: Term) -> Term:
        """The difference."""
        return self.add(a, self.times(b, self.number(-1.0)))

    def times(self, a: Term, b: Term) -> Term:
        """The product."""
        if len(a.summands) * len(b.summands) > _MOST_PRODUCTS:
            a, b = (term if len(term.summands) == 1 else self.atom("group", term) for term in (a, b))
        total: dict[Monomial, float] = {}
        for left, x in a.summands:
            for right, y in b.summands:
                monomial = _joined(left, right)
                total[monomial] = total.get(monomial, 0.0) + x * y
        return self._term(total)

    def power(self, a: Term, exponent: float) -> Term:
        """The power; of a sum it is multiplied out for small whole exponents only."""
        if len(a.summands) == 1:
            monomial, value = a.summands[0]
            if value > 0 or exponent == int(exponent):
                raised = tuple((number, e * exponent) for number, e in monomial)
                return self._term({raised: value**exponent})
        if exponent in (2.0, 3.0):
            return self.times(a, self.power(a, exponent - 1)) if exponent > 2 else self.times(a, a)
        if exponent == 1.0 or not a.summands:
            return a
        number = self._numbers.setdefault(("group", a), len(self._numbers))
        self.atoms[number] = ("group", a)
        return self._term({((number, exponent),): 1.0})

    def divide(self, a: Term, b: Term) -> Term:
        """The quotient."""
        return self.times(a, self.power(b, -1.0))

    def linear(self, name: str, a: Term) -> Term:
        """A linear operation along a dim: of a sum it is taken summand by summand.

        Numbers and sizes stay outside, and so do factors that were reduced themselves, if others are left: as dims
        are not looked at, they are taken to be constant along the one that is reduced now.
        """
        parts = []
        for monomial, value in a.summands:
            inside = tuple(pair for pair in monomial if self.atoms[pair[0]][0] not in _CONSTANT)
            if not inside:
                inside = tuple(pair for pair in monomial if self.atoms[pair[0]][0] != "size")
            outside = tuple(pair for pair in monomial if pair not in inside)
            parts.append(self.times(self._term({outside: value}), self.atom(name, self._term({inside: 1.0}))))
        return self.add(*parts)

    def each_factor(self, a: Term, change: Callable[[tuple[object, ...]], Term | None]) -> Term:
        """The term with every atom for which `change` gives another one replaced."""
        parts = []
        for monomial, value in a.summands:
            product = self.number(value)
            for number, exponent in monomial:
                changed = change(self.atoms[number])
                factor = self._term({((number, 1.0),): 1.0}) if changed is None else changed
                product = self.times(product, self.power(factor, exponent))
            parts.append(product)
        return self.add(*parts)

    def parts_of(self, term: Term) -> Iterable[Term]:
        """Products of some factors, or sums of some summands: what code may compute on its way to the term."""
        if len(term.summands) == 1:
            monomial, _ = term.summands[0]
            if 2 < len(monomial) <= 5:
                yield from (self._term({part: 1.0}) for part in _subsets(monomial))
        elif len(term.summands) <= 4:
            yield from (self._term(dict(part)) for part in _subsets(term.summands))

    def _term(self, summands: Mapping[Monomial, float]) -> Term:
        key = tuple(sorted((monomial, round(value, 12)) for monomial, value in summands.items() if value))
        known = self._terms.get(key)
        return known if known is not None else self._terms.setdefault(key, Term(key))


def _joined(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    total = dict(left)
    for number, exponent in right:
        total[number] = total.get(number, 0.0) + exponent
    return tuple(sorted((number, exponent) for number, exponent in total.items() if exponent))


def _subsets(items: tuple[object, ...]) -> Iterable[tuple]:  # type: ignore[type-arg]
    for mask in range(1, 2 ** len(items) - 1):
        if mask.bit_count() > 1:
            yield tuple(item for place, item in enumerate(items) if mask >> place & 1)
