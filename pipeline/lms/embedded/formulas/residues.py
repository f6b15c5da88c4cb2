"""Fingerprints of formulas: residues of symbols, of constants, and arithmetic on them.

A formula is a polynomial in symbols: the elements of inputs, and what operations other than sums and products give.
Equal polynomials have the same residue, however they are written, and others hardly ever (Schwartz 1980; Zippel 1979).
No data are in it, as each symbol has the same residue always.

The first residue is modulo `PRIME`. An exponential takes its exponent from the second one, modulo `ORDER`, so that it
makes a product of a sum; quotients and roots have both. For a logarithm, for sums with one and for its multiples, the
second one is the exponential itself, marked by `LOG`, and gives the first one. Roots are those that are squares
themselves, and the sign of a residue is whether it is a square, so that a root is positive, the root of a square an
absolute value, and the sign of a product the product of signs.
"""

from __future__ import annotations

import zlib
from fractions import Fraction
from math import exp
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Residues: TypeAlias = NDArray[np.uint64]
"""Residues of one kind, or both in one word: the first one in the upper half."""

WORD = np.uint64
PRIME = 2_147_454_839
"""A prime, `2 * ORDER + 1`, modulo which the numbers up to 16 are squares, and -1 is not."""
ORDER = 1_073_727_419
LOG = WORD(1 << 31)
"""The mark of a second residue that is an exponential."""
SIGNED, ORDERED = range(1, 4), range(4, 9)
"""In each of several worlds, symbols have other residues. A sign is one of two, and may be the same for formulas that
differ: where it decides for all elements, only several worlds tell these apart. Formulas are equal if they are in all
worlds of one of these two kinds. Where they are `SIGNED`, the sign of a residue is whether it is a square, so that the
sign of a product is the product of signs; ranks are symbols. Where they are `ORDERED`, residues are compared as
numbers, so that comparisons, sorted elements and largest ones agree.

There is one world before, 0, for values on the way. It is ordered, and what only guards against an overflow leaves no
trace, as programs may do without or do it elsewhere.
"""
LEAST = ORDER + 1
"""The first residue of minus infinity, which is the logarithm of zero."""
_MASKED = 1e8
"""What is below minus this is a mask, as minus infinity is."""
DRAWN = (-1, -1)
"""Zeros and ones that are drawn one by one."""
_BASE = 4
"""An element of order `ORDER` modulo `PRIME`."""
_COUNT = 1 << 12
"""Numbers below this may be counts or places."""
_FEW = 40
"""So many powers are computed one by one."""
_FACTOR = WORD(1_234_567_891)
_NOTHING = 1e-20
_LARGEST_DENOMINATOR = 1 << 12
_PRECISION = 1e-10
_DIGIT = 15
"""The bits of a digit of an exponent, which has two."""
_DIGITS = WORD((1 << _DIGIT) - 1)
_LOWER = WORD(0xFFFFFFFF)
_HALF = WORD(32)
_MIX = WORD(0xBF58476D1CE4E5B9), WORD(0x94D049BB133111EB)
STEP = WORD(0x9E3779B97F4A7C15)


class Kind(NamedTuple):
    """What is known of the elements of an input.

    Attributes:
        positive: Whether they are positive.
        ones: The least and the largest number of ones in a row, if they are zeros and ones: -1 for its length.
        format: The name of their format in torch.
    """

    positive: bool = False
    ones: tuple[int, int] | None = None
    format: str = "float32"


# --- symbols and constants ---


def mixed(word: Any) -> Any:
    """Bits that look as if drawn at random, the same for the same word."""
    with np.errstate(over="ignore"):
        word = (word ^ (word >> WORD(30))) * _MIX[0]
        word = (word ^ (word >> WORD(27))) * _MIX[1]
        return word ^ (word >> WORD(31))


def seed(text: str) -> Any:
    """Random bits for a text."""
    with np.errstate(over="ignore"):
        return mixed(np.array([zlib.crc32(text.encode())], WORD) + STEP)


def packed(one: Residues, other: Residues) -> Residues:
    """Two residues as one word."""
    return (one << _HALF) | other


def first(words: Residues) -> Residues:
    """The first residues."""
    return words >> _HALF


def second(words: Residues) -> Residues:
    """The second residues."""
    return words & _LOWER


def drawn(word: Any) -> tuple[Residues, Residues]:
    """The residues of what has random bits."""
    return (word >> _HALF) % WORD(PRIME), (word & _LOWER) % WORD(ORDER)


def symbols(name: str, shape: tuple[int, ...], kind: Kind, world: int) -> Residues:
    """The residues of the elements of an input or a weight, as words; zeros and ones are drawn, as masks are."""
    count = int(np.prod(shape, dtype=np.int64))
    with np.errstate(over="ignore"):
        words = mixed(np.arange(count, dtype=WORD) + STEP) + seed(f"{name} {world}" if world else name)
    words = mixed(words).reshape(shape)
    if kind.ones is not None:
        ones = words >> WORD(63) if kind.ones == DRAWN else _hot(words, *kind.ones)
        return packed(ones, ones)
    one, other = drawn(words)
    return packed(one * one % WORD(PRIME) if kind.positive else one, other)


def _hot(words: Residues, least: int, most: int) -> Residues:
    """Rows of zeros and ones, from `least` to `most` ones in each."""
    most = words.shape[-1] if most < 0 else most
    rows = words.reshape(-1, words.shape[-1])
    count = least + (mixed(rows.sum(1)) % WORD(most - least + 1)).astype(np.int64)
    ones: Residues = (rows.argsort(1).argsort(1) < count[:, None]).astype(WORD)
    return ones.reshape(words.shape)


def encoded(value: float) -> int:
    """The residues of a constant, as a word: of a fraction, of its root or logarithm, or what stands for the number."""
    if abs(value) < _NOTHING:
        return 0
    if value < -_MASKED:
        return LEAST << 32 | int(LOG)
    if np.isinf(value):
        return ORDER << 32  # The largest one.
    if (ratio := _fraction(value)) is not None:
        return _residue(ratio, PRIME) << 32 | _residue(ratio, ORDER)
    if (square := _fraction(value * value)) is not None:
        roots = (pow(_residue(square, prime), (prime + 1) // 4, prime) for prime in (PRIME, ORDER))
        root, other = (own if value > 0 else prime - own for own, prime in zip(roots, (PRIME, ORDER), strict=True))
        return root << 32 | other
    if abs(value) < _FEW and (ratio := _fraction(exp(value))) is not None:
        whole = np.array([_residue(ratio, PRIME)], WORD)
        return int(packed(logarithm(whole), whole | LOG)[0])
    one, two = drawn(seed(f"{value:.6g}"))
    return int(one[0]) << 32 | int(two[0])


def _fraction(value: float) -> Fraction | None:
    if not np.isfinite(value):
        return None
    ratio = Fraction(value).limit_denominator(_LARGEST_DENOMINATOR)
    return ratio if ratio and abs(float(ratio) - value) <= _PRECISION * abs(value) else None


def _residue(ratio: Fraction, prime: int) -> int:
    return ratio.numerator * pow(ratio.denominator, -1, prime) % prime


def constants(values: NDArray[np.float64]) -> Residues:
    """The residues of constants, as words."""
    found, places = np.unique(values, return_inverse=True)
    return np.array([encoded(float(one)) for one in found], WORD)[places].reshape(values.shape)


# --- arithmetic ---


def _powers(base: int) -> Residues:
    """The powers of a number, as many as a digit of an exponent has values."""
    found = np.ones(1, WORD)
    for place in range(_DIGIT):
        found = np.concatenate((found, found * WORD(pow(base, 1 << place, PRIME)) % WORD(PRIME)))
    return found


_TABLES = _powers(_BASE), _powers(pow(_BASE, 1 << _DIGIT, PRIME))


def exponential(exponents: Residues) -> Residues:
    """The exponentials of second residues."""
    low, high = _TABLES[0][exponents & _DIGITS], _TABLES[1][exponents >> WORD(_DIGIT) & _DIGITS]
    found: Residues = low * high % WORD(PRIME)
    return found


def power(values: Residues, exponent: int, prime: int = PRIME) -> Residues:
    """Powers of first residues, or of others modulo a prime."""
    if values.size <= _FEW:
        found = [pow(one, exponent, prime) for one in values.reshape(-1).tolist()]
        return np.array(found, WORD).reshape(values.shape)
    powers = [np.ones_like(values), values]
    for _ in range(14):
        powers.append(powers[-1] * values % WORD(prime))
    result = powers[exponent >> 28 & 15]
    for place in range(24, -1, -4):
        for _ in range(4):
            result = result * result % WORD(prime)
        result = result * powers[exponent >> place & 15] % WORD(prime)
    return result


def powers(values: Residues, exponents: Residues) -> Residues:
    """Powers of first residues, each with an exponent of its own."""
    if values.size <= _FEW:
        pairs = zip(values.tolist(), exponents.tolist(), strict=True)
        return np.array([pow(one, exponent, PRIME) for one, exponent in pairs], WORD)
    table = [np.ones_like(values), values]
    for _ in range(14):
        table.append(table[-1] * values % WORD(PRIME))
    every, places = np.stack(table), np.arange(values.size)
    result = every[(exponents >> WORD(28)).astype(np.int64), places]
    for bit in range(24, -1, -4):
        for _ in range(4):
            result = result * result % WORD(PRIME)
        result = result * every[(exponents >> WORD(bit) & WORD(15)).astype(np.int64), places] % WORD(PRIME)
    return result


def logarithm(values: Residues) -> Residues:
    """The first residues of logarithms of first residues: those of an inverse are the opposite ones."""
    own, inverse = (one * one % WORD(PRIME) for one in (values, power(values, PRIME - 2)))
    found: Residues = (own + (WORD(PRIME) - inverse)) % WORD(PRIME) * _FACTOR % WORD(PRIME)
    return found


def signed(values: Residues) -> NDArray[np.int64]:
    """The numbers nearest to zero that have some first residues: an order in which opposites have the opposite one."""
    numbers = values.astype(np.int64)
    return numbers - PRIME * (numbers > ORDER)


def in_order(values: Residues, world: int) -> NDArray[np.int64]:
    """Numbers by which first residues are in order in one of the worlds: counts and places in that of numbers."""
    factor = drawn(seed(f"order {world}"))[0]
    numbers = np.where(are_counts(values), signed(values), signed(values * factor % WORD(PRIME)))
    return np.where(values == LEAST, -PRIME, np.where(values == ORDER, PRIME, numbers))


def are_counts(values: Residues) -> NDArray[np.bool_]:
    """Which first residues may be counts or places."""
    return np.abs(signed(values)) < _COUNT


def exponent(values: Residues) -> Residues:
    """What exponentials take of a value that has no second residue of its own: that of the number nearest to zero."""
    return (values - (values > WORD(ORDER))) % WORD(ORDER)


def either(test: Residues, one: Residues, other: Residues) -> Residues:
    """One of two formulas if a test is one, the other if it is zero; all are words."""
    parts = []
    for prime, part in ((PRIME, first), (ORDER, plain)):
        chosen, a, b = map(part, (test, one, other))
        gap = (a + (WORD(prime) - b)) % WORD(prime)
        parts.append((b + chosen * gap % WORD(prime)) % WORD(prime))
    return packed(*parts)


def plain(words: Residues) -> Residues:
    """The second residues, also of those with logarithms."""
    found = second(words)
    return np.where(found & LOG, exponent(first(words)), found)
