"""What a piece of PyTorch code computes, as sums of products, so that differently written code can be compared.

A term is a polynomial with numeric coefficients and exponents over atoms: inputs, weights, and operations other than
arithmetic (exp, a sum along a dim, a selection), whose arguments are terms again. Shapes are not part of it:
`unsqueeze`, `transpose` and the like leave a term unchanged. Equal terms are one object, so that `is` and hashing
by identity compare them. Terms are heuristics, not proofs: they guide the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

Monomial: TypeAlias = tuple[tuple[int, float], ...]
"""Atoms by number, each with its exponent."""

_CONSTANT = frozenset(("size", "sum", "amax"))
_OPAQUE = frozenset(("input", "weight", "select", "argument", "state", "cumsum", "cummax", "text", "name", "data"))
"""Atoms that are never constant, regardless of their arguments, or have none."""
_MOST_PRODUCTS = 48
"""A product with more summands stays a product of opaque atoms."""


class Term:
    """A polynomial; made by `Algebra` only."""

    __slots__ = ("summands",)

    def __init__(self, summands: tuple[tuple[Monomial, float], ...]) -> None:
        self.summands = summands


class Algebra:
    """Makes and interns all terms of one task. Atoms are numbered in order of creation.

    If it is `flat`, all sums are taken along one dim: what was reduced is then constant under a second sum, which
    multiplies it by the size. Otherwise a second sum is along another dim, and a separate operation.
    """

    def __init__(self, *, flat: bool = False) -> None:
        self.ambiguous = False
        """Whether something reduced was summed again, which has two interpretations."""
        self._flat = flat
        self._reduced: dict[int, bool] = {}
        self._terms: dict[tuple[tuple[Monomial, float], ...], Term] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        self.atoms: dict[int, tuple[object, ...]] = {}
        self.one = self.number(1.0)
        self.zero = self.number(0.0)
        self.size = self.atom("size")
        """Any size that code mentions; which one it is follows from shapes."""

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
        exponent = round(exponent, 12)
        if len(a.summands) == 1:
            monomial, value = a.summands[0]
            if value > 0 or exponent == int(exponent):
                raised = tuple((number, e * exponent) for number, e in monomial)
                return self._term({raised: value**exponent})
        if exponent in (2.0, 3.0):
            return self.times(a, self.power(a, exponent - 1)) if exponent > 2 else self.times(a, a)
        if exponent == 1.0 or not a.summands:
            return a
        # Exponentials go before the sum: 1 / (1 + exp(-x)) is exp(x) / (exp(x) + 1).
        shared, _ = self.factored(a)
        common = self._term({tuple(p for p in shared.summands[0][0] if self.atoms[p[0]][0] == "exp"): 1.0})
        rest = a if common is self.one else self.divide(a, common)
        number = self._numbers.setdefault(("group", rest), len(self._numbers))
        self.atoms[number] = ("group", rest)
        return self.times(self.power(common, exponent), self._term({((number, exponent),): 1.0}))

    def factored(self, a: Term) -> tuple[Term, Term]:
        """The common factor of all summands, with the magnitude of the first coefficient, and the quotient."""
        products = [dict(monomial) for monomial, _ in a.summands]
        atoms = sorted({number for product in products for number in product})
        least = ((number, min(product.get(number, 0.0) for product in products)) for number in atoms)
        common = self._term({tuple((number, exponent) for number, exponent in least if exponent): 1.0})
        scale = self.times(common, self.number(abs(a.summands[0][1])))
        return scale, self.divide(a, scale)

    def product_of(self, monomial: Monomial) -> Term:
        """Some atoms, each with its exponent, as a term."""
        return self._term({monomial: 1.0})

    def divide(self, a: Term, b: Term) -> Term:
        """The quotient."""
        return self.times(a, self.power(b, -1.0))

    def linear(self, name: str, a: Term) -> Term:
        """A linear operation along a dim: of a sum it is taken summand by summand.

        Numbers and sizes stay outside, and so do factors that were reduced themselves, if others are left: as dims
        are ignored, they count as constant along the one that is reduced now.
        """
        parts = []
        for monomial, value in a.summands:
            inside = tuple(pair for pair in monomial if not self._is_reduced(pair[0]))
            if not inside and name == "sum":
                self.ambiguous |= any(self.atoms[number][0] != "size" for number, _ in monomial)
                if self._flat or not monomial:
                    parts.append(self.times(self._term({monomial: value}), self.size))
                    continue
            if not inside:
                inside = tuple(pair for pair in monomial if self.atoms[pair[0]][0] != "size")
            outside = tuple(pair for pair in monomial if pair not in inside)
            parts.append(self.times(self._term({outside: value}), self.atom(name, self._term({inside: 1.0}))))
        return self.add(*parts)

    def _is_reduced(self, number: int) -> bool:
        """Whether an atom is made only of reductions and operations on their results."""
        known = self._reduced.get(number)
        if known is None:
            name, *parts = self.atoms[number]
            inner = [other for part in parts if isinstance(part, Term) for m, _ in part.summands for other, _ in m]
            known = name in _CONSTANT or (
                name not in _OPAQUE and bool(inner) and all(self._is_reduced(other) for other in inner)
            )
            self._reduced[number] = known
        return known

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
        """Products of some factors, or sums of some summands: possible intermediate results of the term."""
        if len(term.summands) == 1:
            monomial, _ = term.summands[0]
            if 2 < len(monomial) <= 5:
                yield from (self._term({part: 1.0}) for part in _subsets(monomial, 2))
        elif len(term.summands) <= 4:
            yield from (self._term(dict(part)) for part in _subsets(term.summands, 2))

    def pieces_of(self, term: Term) -> Iterable[Term]:
        """Possible intermediate results of code that computes the term in another way.

        These are single factors and summands, bases and inverses of powers, the common factor of all summands, and the
        quotient.
        """
        if not 0 < len(term.summands) <= 8:
            return
        common, rest = self.factored(term)
        monomial = common.summands[0][0]
        for number, exponent in monomial:
            yield from (self._term({((number, e),): 1.0}) for e in dict.fromkeys((exponent, -exponent, 1.0)))
        if len(term.summands) == 1:
            yield common if common is not term else rest
            return
        if monomial and len(monomial) <= 4:
            yield from (self.times(self._term({part: 1.0}), rest) for part in _subsets(monomial, 1))
        yield from (rest, self.times(rest, self.number(common.summands[0][1])))
        for own, value in term.summands:
            yield from (self._term({own: value}), self._term({own: 1.0}))

    def _term(self, summands: Mapping[Monomial, float]) -> Term:
        rounded = [(monomial, round(value, 12)) for monomial, value in summands.items()]
        kept = [pair for pair in rounded if pair[1]]
        kept.sort()
        key = tuple(kept)
        known = self._terms.get(key)
        return known if known is not None else self._terms.setdefault(key, Term(key))


def _joined(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    total = dict(left)
    for number, exponent in right:
        total[number] = total.get(number, 0.0) + exponent
    return tuple(sorted((number, exponent) for number, exponent in total.items() if exponent))


def _subsets(items: tuple[object, ...], least: int) -> Iterable[tuple]:  # type: ignore[type-arg]
    """The proper subsets of a least size; of a single item, itself."""
    for mask in range(1, max(2, 2 ** len(items) - 1)):
        if mask.bit_count() >= least:
            yield tuple(item for place, item in enumerate(items) if mask >> place & 1)
