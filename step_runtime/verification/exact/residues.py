"""Arithmetic on residues, by which exact numbers are compared.

A number is held by its residues in `WORLDS` independent worlds, on `LEVELS` levels each: a tensor of `CHANNELS` words
in front of all other dims. Level 0 is what is compared, modulo a prime. The prime of each level is twice that of the
next one, and 1: an exponential of level `l` takes its exponent from level `l + 1`, so that it makes products of sums.
Equal rational functions of independent numbers have equal residues, others hardly ever (Schwartz 1980, Zippel 1979).
Operations that are not followed are free symbols: drawn from the residues of what they take, the same for the same.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from functools import cache, lru_cache
from typing import Literal

import torch
from torch import Tensor

WORLDS = 6
PRIMES = (1_427_025_599, 713_512_799, 356_756_399)
"""Modulo each, the numbers up to 16 are squares, and -1 is not."""
LEVELS = len(PRIMES)
CHANNELS = WORLDS * LEVELS
SMALLEST = math.log2(PRIMES[-1])
"""The bits of the smallest prime."""
_SQUARES = (2, 3, 5, 7, 11, 13)
_LARGEST_DENOMINATOR = 1 << 20
_NEAR = 4
"""Units in the last place by which a constant that was computed may be away from the number that is meant."""
_LARGEST_ROOT = 1 << 24
_FACTORS = (-4658895280553007687, -7723592293110705685)
_LONG = torch.int64
_DIGIT = 15

MODULI = torch.tensor([prime for prime in PRIMES for _ in range(WORLDS)], dtype=_LONG)
"""The modulus of each channel: those of level 0 come first."""


def moduli(like: Tensor) -> Tensor:
    """The moduli in the shape of residues, for broadcasting."""
    return MODULI.view(-1, *(1,) * (like.dim() - 1))


# --- random bits ---


def mixed(words: Tensor) -> Tensor:
    """Bits that look as if drawn at random, the same for the same words."""
    words = (words ^ (words >> 30)) * _FACTORS[0]
    words = (words ^ (words >> 27)) * _FACTORS[1]
    return words ^ (words >> 31)


Laws = Literal["gathered", "linear", "discrete"]
"""How logarithms add up, and roots multiply.

`gathered`: a sum of logarithms is the symbol of the product, and a product of roots that of the root of the product.
`linear`: each is a symbol, and sums are sums. `discrete`: a logarithm is the discrete logarithm of the level above, or
of its opposite, so that products, quotients and exponentials keep their laws; level 1 is compared then.
"""
_TRIAL: ContextVar[int] = ContextVar("trial", default=0)
"""Which of several draws of everything random is in use."""
_LAWS: ContextVar[Laws] = ContextVar("laws", default="gathered")

Word = tuple[int, int]


@contextmanager
def trial(number: int, laws: Laws = "gathered") -> Iterator[None]:
    """Within the context, all that is random is drawn anew: worlds that are independent of those of other trials."""
    tokens = _TRIAL.set(number), _LAWS.set(laws)
    try:
        yield
    finally:
        _TRIAL.reset(tokens[0])
        _LAWS.reset(tokens[1])


def laws() -> Laws:
    """The laws of the worlds in use."""
    return _LAWS.get()


def compared() -> int:
    """The level on which numbers are compared."""
    return int(laws() == "discrete")


def level(data: Tensor) -> Tensor:
    """The residues by which numbers are compared, of all."""
    return data[WORLDS * compared() :][:WORLDS]


def seed(text: str) -> int:
    """Random bits for a text, in the trial in use."""
    number = _TRIAL.get()
    return _seed(f"{text} {number}" if number else text)


@lru_cache(1 << 16)
def _seed(text: str) -> int:
    own = (zlib.crc32(text.encode()) << 32 | zlib.crc32(text[::-1].encode() + b"seed")) - (1 << 63)
    return int(mixed(torch.tensor([own + 1], dtype=_LONG))[0])


def fingerprint(residues: Tensor) -> Tensor:
    """Two words for each number, of shape (2, ...), from the residues by which it is compared."""
    own = level(residues) if len(residues) == CHANNELS else residues
    shape = (2, WORLDS, *(1,) * (own.dim() - 1))
    return mixed(mixed(own + _seeds("fingerprint", 2 * WORLDS, _TRIAL.get()).view(shape)).sum(1))


def symbols(name: str, words: Tensor) -> Tensor:
    """The residues of free symbols, by a name and two words each; of shape (CHANNELS, ...)."""
    seeds = _seeds(name, CHANNELS, _TRIAL.get()).view(CHANNELS // 2, 2, *(1,) * (words.dim() - 1))
    found = mixed(words + seeds).flatten(0, 1) & 0x7FFF_FFFF_FFFF_FFFF
    return found % moduli(found)


@lru_cache(4096)
def _seeds(name: str, count: int, trial: int) -> Tensor:
    return torch.tensor([seed(f"{name} {number}") for number in range(count)], dtype=_LONG)


# --- constants ---


def constants(values: Tensor) -> Tensor:
    """The residues of floats, read as `encoded` says."""
    flat = values.reshape(-1).to(torch.float64)
    distinct, places = torch.unique(flat, return_inverse=True)
    if len(distinct) == 0:
        return torch.zeros(CHANNELS, *values.shape, dtype=_LONG)
    table = torch.stack([torch.tensor(encoded(float(one)), dtype=_LONG) for one in distinct], 1)
    return table[:, places].reshape(CHANNELS, *values.shape)


def encoded(value: float) -> tuple[int, ...]:
    """The residues of a float: of the simplest fraction beside it, or of the root of a fraction.

    A root is recognized if it is the float itself or one of its neighbours.
    """
    return _encoded(value, _TRIAL.get())


@cache
def _encoded(value: float, trial: int) -> tuple[int, ...]:
    if not math.isfinite(value):
        sign = 1 if value > 0 else -1
        return tuple(sign * seed(f"infinity {channel}") % int(MODULI[channel]) for channel in range(CHANNELS))
    ratio = simplest(value)
    if ratio.denominator > _LARGEST_DENOMINATOR and abs(value) < _LARGEST_ROOT:
        for order in (2, 4):
            radicand = Fraction(value**order).limit_denominator(4096)
            if radicand and abs(float(radicand) ** (1 / order) - abs(value)) <= math.ulp(value):
                sign = 1 if value > 0 else -1
                roots = [sign * _root(radicand, order, prime) % prime for prime in PRIMES]
                return tuple(root for root in roots for _ in range(WORLDS))
    return tuple(_residue(ratio, prime) for prime in PRIMES for _ in range(WORLDS))


def simplest(value: float) -> Fraction:
    """The fraction of the smallest denominator beside a float, within what operations on constants round.

    `1 - 0.8` is `1/5`, as is `0.2`.
    """
    exact, near = Fraction(value), _NEAR * Fraction(math.ulp(value))
    bound = 1
    while bound < exact.denominator:
        found = exact.limit_denominator(bound)
        if found and abs(found - exact) <= near:
            return found
        bound *= 2
    return exact


def _residue(ratio: Fraction, prime: int) -> int:
    return ratio.numerator * pow(ratio.denominator, -1, prime) % prime


def _root(radicand: Fraction, order: int, prime: int) -> int:
    """The second or fourth root that is a square itself; for a number that has none a free symbol of its factors."""
    found = 1
    for number, inverted in ((radicand.numerator, False), (radicand.denominator, True)):
        own = 1
        for factor, times in _factors(number):
            own = own * pow(_prime_root(factor, order, prime), times, prime) % prime
        found = found * (pow(own, -1, prime) if inverted else own) % prime
    return found


@cache
def _factors(number: int) -> tuple[tuple[int, int], ...]:
    found, factor = [], 2
    while factor * factor <= number:
        times = 0
        while number % factor == 0:
            number, times = number // factor, times + 1
        found += [(factor, times)] if times else []
        factor += 1
    return (*found, *([(number, 1)] if number > 1 else ()))


def _prime_root(number: int, order: int, prime: int) -> int:
    """A root of a prime number in a field: a free symbol where there is none."""
    found = number
    for _ in range(order.bit_length() - 1):
        found = pow(found, (prime + 1) // 4, prime)
    return found if pow(found, order, prime) == number % prime else seed(f"root {order} {number}") % prime


# --- arithmetic ---


def power(values: Tensor, exponent: int | Tensor) -> Tensor:
    """Powers, each channel with an exponent of its own, if these are several."""
    modulus = moduli(values)
    exponents = [exponent] * CHANNELS if isinstance(exponent, int) else exponent.tolist()
    bits = max(int(one).bit_length() for one in exponents)
    result = torch.ones_like(values)
    for place in range(bits - 1, -1, -1):
        result = result * result % modulus
        chosen = torch.tensor([int(one) >> place & 1 for one in exponents], dtype=torch.bool)
        if chosen.all():
            result = result * values % modulus
        elif chosen.any():
            result = torch.where(chosen.view_as(modulus), result * values % modulus, result)
    return result


def inverse(values: Tensor) -> Tensor:
    """Inverses; 0 for 0."""
    flat = values.reshape(CHANNELS, -1)
    if flat.shape[1] < 8:
        return power(values, MODULI - 2)
    return _inverse_tree(flat).reshape(values.shape)


def _inverse_tree(values: Tensor) -> Tensor:
    """Inverses of many numbers by that of one product of pairs after another (Montgomery 1987)."""
    modulus = moduli(values)
    count = values.shape[1]
    if count < 8:
        return power(values, MODULI - 2)
    zero = values == 0
    safe = torch.where(zero, 1, values)
    if count % 2:
        safe = torch.cat((safe, torch.ones_like(safe[:, :1])), 1)
    one, other = safe[:, 0::2], safe[:, 1::2]
    both = _inverse_tree(one * other % modulus)
    found = torch.stack((both * other % modulus, both * one % modulus), 2).flatten(1)[:, :count]
    return torch.where(zero, 0, found)


@cache
def _tables(name: str, trial: int) -> tuple[Tensor, Tensor]:
    """Powers of a base, as many as a digit of an exponent has values, and of its power by that many."""
    low, high = [], []
    for channel in range(WORLDS * (LEVELS - 1)):
        prime = int(MODULI[channel])
        base = int(name) if name.isdigit() else _base(name, channel)
        low.append(_powers(base, prime))
        high.append(_powers(pow(base, 1 << _DIGIT, prime), prime))
    return torch.stack(low), torch.stack(high)


def _base(name: str, channel: int) -> int:
    """The base of a word in a channel: a square drawn at random."""
    prime = int(MODULI[channel])
    return pow(seed(f"{name} {channel}") % prime, 2, prime)


def _powers(base: int, prime: int) -> Tensor:
    found = torch.ones(1, dtype=_LONG)
    for place in range(_DIGIT):
        found = torch.cat((found, found * pow(base, 1 << place, prime) % prime))
    return found


def exponential(exponents: Tensor, name: str = "e") -> Tensor:
    """Powers of a base on all levels but the last, of exponents from the levels below; the base is a word or a number.

    A word stands for a base drawn at random; a number must be a square modulo all primes.
    """
    low, high = _tables(name, _TRIAL.get())
    count = WORLDS * (LEVELS - 1)
    flat = exponents[WORLDS:].reshape(count, -1)
    mask = (1 << _DIGIT) - 1
    found = low.gather(1, flat & mask) * high.gather(1, flat >> _DIGIT) % moduli(exponents)[:count].reshape(count, 1)
    return found.reshape(count, *exponents.shape[1:])


def logarithm(numbers: Tensor) -> Tensor:
    """Discrete logarithms of numbers or of their opposites, to the bases of `exponential`, on all levels but the first.

    They are those of the level above. 0 has none: its residue is 0.
    """
    flat = numbers.reshape(CHANNELS, -1)
    found = torch.zeros(CHANNELS - WORLDS, flat.shape[1], dtype=_LONG)
    for place in range(LEVELS - 1):
        rows = slice(place * WORLDS, (place + 1) * WORLDS)
        distinct, where = torch.unique(flat[rows], return_inverse=True)
        order = PRIMES[place + 1]
        bases = torch.tensor([_base("e", channel) for channel in range(rows.start, rows.stop)], dtype=_LONG)
        every = _discrete(torch.cat((distinct, bases)), place)
        scales = torch.tensor([pow(int(one), -1, order) for one in every[len(distinct) :]], dtype=_LONG)
        found[rows] = every[where] * scales.unsqueeze(1) % order
    return found.reshape(CHANNELS - WORLDS, *numbers.shape[1:])


_STEPS = 1 << 20


@cache
def _baby_steps(place: int) -> tuple[Tensor, Tensor]:
    """The powers of 4 modulo a prime, sorted, and their exponents."""
    prime = PRIMES[place]
    powers = torch.ones(1, dtype=_LONG)
    while len(powers) < _STEPS:
        powers = torch.cat((powers, powers * pow(4, len(powers), prime) % prime))
    found = powers.sort()
    return found.values, found.indices


def _discrete(numbers: Tensor, place: int) -> Tensor:
    """Exponents of 4, which generates all squares modulo the prime of a level (Shanks 1971); 0 for 0."""
    prime = PRIMES[place]
    powers, exponents = _baby_steps(place)
    # Of a number and its opposite one is a square, as -1 is none.
    square = power_of(numbers, PRIMES[place + 1], prime) == 1
    rest = torch.where(square, numbers, prime - numbers) % prime
    giant = pow(4, -_STEPS, prime)
    found = torch.zeros_like(numbers)
    open_ = (numbers != 0).nonzero().squeeze(1)
    for step in range(PRIMES[place + 1] // _STEPS + 1):
        own = rest[open_]
        spots = torch.searchsorted(powers, own).clamp(max=_STEPS - 1)
        hit = powers[spots] == own
        found[open_[hit]] = exponents[spots[hit]] + step * _STEPS
        open_ = open_[~hit]
        if not len(open_):
            break
        rest[open_] = rest[open_] * giant % prime
    return found % PRIMES[place + 1]


def power_of(numbers: Tensor, exponent: int, prime: int) -> Tensor:
    """Powers modulo one prime."""
    found = torch.ones_like(numbers)
    for bit in f"{exponent:b}":
        found = found * found % prime
        found = found * numbers % prime if bit == "1" else found
    return found


def smooth(value: float) -> bool:
    """Whether a number is a whole one that is a square modulo all primes, by its factors."""
    if value != int(value) or not 1 < value < 1 << 40:
        return False
    rest = int(value)
    for factor in _SQUARES:
        while rest % factor == 0:
            rest //= factor
    return rest == 1 or math.isqrt(rest) ** 2 == rest


def product(one: Tensor, other: Tensor) -> Tensor:
    """Products of matrices of residues, `(CHANNELS, ..., n, k)` and `(CHANNELS, ..., k, m)`."""
    modulus = moduli(one)
    high = torch.matmul(one >> 16, other) % modulus
    low = torch.matmul(one & 0xFFFF, other)
    return ((high << 16) + low) % modulus
