"""Arithmetic on residues, by which exact numbers are compared.

A number is held by its residues in `WORLDS` independent worlds, on `LEVELS` levels each: a tensor of `CHANNELS` words
in front of all other dims. Level 0 is what is compared, modulo a prime. The prime of each level is twice that of the
next one, and 1: an exponential of level `l` takes its exponent from level `l + 1`, so that it makes products of sums.
Under the laws `turning` it is 24 times that, and 1, so that each field has the roots of 1 that turns of an angle take.
Equal rational functions of independent numbers have equal residues, others hardly ever (Schwartz 1980, Zippel 1979).
Operations that are not followed are free symbols: drawn from the residues of what they take, the same for the same.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import Literal

import torch
from torch import Tensor

WORLDS = 6
_PRIMES = (1_427_025_599, 713_512_799, 356_756_399)
"""Modulo each, the numbers up to 16 are squares, and -1 is not."""
TURN = 24
"""The parts of a turn that roots of 1 stand for under the laws `turning`; they make the roots of 2, 3 and -1."""
_TURNING_PRIMES = (2_124_500_569, 88_520_857, 3_688_369)
"""Each is 1 modulo 24. Modulo the first, the numbers up to 16 are squares."""
LEVELS = len(_PRIMES)
CHANNELS = WORLDS * LEVELS
_SQUARES = (2, 3, 5, 7, 11, 13)
_FACTORS = (-4658895280553007687, -7723592293110705685)
_LONG = torch.int64
_DIGIT = 15

# --- random bits ---


def mixed(words: Tensor) -> Tensor:
    """Bits that look as if drawn at random, the same for the same words."""
    words = (words ^ (words >> 30)) * _FACTORS[0]
    words = (words ^ (words >> 27)) * _FACTORS[1]
    return words ^ (words >> 31)


Laws = Literal["gathered", "linear", "discrete", "turning"]
"""How logarithms add up, and roots multiply; whether angles do.

`gathered`: a sum of logarithms is the symbol of the product, and a product of roots that of the root of the product.
`linear`: each is a symbol, and sums are sums. `discrete`: a logarithm is the discrete logarithm of the level above, or
of its opposite, so that products, quotients and exponentials keep their laws; level 1 is compared then. `turning`: as
`linear`, and sines and cosines are made of powers of a base, so that those of sums of angles keep their laws.
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


def drawn() -> int:
    """The number of the trial in use."""
    return _TRIAL.get()


def laws() -> Laws:
    """The laws of the worlds in use."""
    return _LAWS.get()


def primes() -> tuple[int, ...]:
    """The prime of each level, under the laws in use."""
    return _TURNING_PRIMES if laws() == "turning" else _PRIMES


_MODULI, _TURNING_MODULI = (
    torch.tensor([prime for prime in each for _ in range(WORLDS)], dtype=_LONG) for each in (_PRIMES, _TURNING_PRIMES)
)


def modulus_of_channels() -> Tensor:
    """The modulus of each channel: those of level 0 come first."""
    return _TURNING_MODULI if _LAWS.get() == "turning" else _MODULI


def moduli(like: Tensor) -> Tensor:
    """The moduli in the shape of residues, for broadcasting."""
    return modulus_of_channels().view(-1, *(1,) * (like.dim() - 1))


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
        return power(values, modulus_of_channels() - 2)
    return _inverse_tree(flat).reshape(values.shape)


def _inverse_tree(values: Tensor) -> Tensor:
    """Inverses of many numbers by that of one product of pairs after another (Montgomery 1987)."""
    modulus = moduli(values)
    count = values.shape[1]
    if count < 8:
        return power(values, modulus_of_channels() - 2)
    zero = values == 0
    safe = torch.where(zero, 1, values)
    if count % 2:
        safe = torch.cat((safe, torch.ones_like(safe[:, :1])), 1)
    one, other = safe[:, 0::2], safe[:, 1::2]
    both = _inverse_tree(one * other % modulus)
    found = torch.stack((both * other % modulus, both * one % modulus), 2).flatten(1)[:, :count]
    return torch.where(zero, 0, found)


@cache
def _tables(name: str, trial: int, primes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Powers of a base, as many as a digit of an exponent has values, and of its power by that many."""
    low, high = [], []
    for channel in range(WORLDS * (LEVELS - 1)):
        prime = primes[channel // WORLDS]
        base = int(name) if name.isdigit() else _base(name, channel)
        low.append(_powers(base, prime))
        high.append(_powers(pow(base, 1 << _DIGIT, prime), prime))
    return torch.stack(low), torch.stack(high)


def _base(name: str, channel: int) -> int:
    """The base of a word in a channel: drawn at random, of the order that is the prime of the next level."""
    prime, order = primes()[channel // WORLDS :][:2]
    return pow(seed(f"{name} {channel}") % prime, (prime - 1) // order, prime)


def _powers(base: int, prime: int) -> Tensor:
    found = torch.ones(1, dtype=_LONG)
    for place in range(_DIGIT):
        found = torch.cat((found, found * pow(base, 1 << place, prime) % prime))
    return found


def exponential(exponents: Tensor, name: str = "e") -> Tensor:
    """Powers of a base on all levels but the last, of exponents from the levels below; the base is a word or a number.

    A word stands for a base drawn at random; a number must be a square modulo all primes.
    """
    low, high = _tables(name, _TRIAL.get(), primes())
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
        order = _PRIMES[place + 1]
        bases = torch.tensor([_base("e", channel) for channel in range(rows.start, rows.stop)], dtype=_LONG)
        every = _discrete(torch.cat((distinct, bases)), place)
        scales = torch.tensor([pow(int(one), -1, order) for one in every[len(distinct) :]], dtype=_LONG)
        found[rows] = every[where] * scales.unsqueeze(1) % order
    return found.reshape(CHANNELS - WORLDS, *numbers.shape[1:])


_STEPS = 1 << 20


@cache
def _baby_steps(place: int) -> tuple[Tensor, Tensor]:
    """The powers of 4 modulo a prime, sorted, and their exponents."""
    prime = _PRIMES[place]
    powers = torch.ones(1, dtype=_LONG)
    while len(powers) < _STEPS:
        powers = torch.cat((powers, powers * pow(4, len(powers), prime) % prime))
    found = powers.sort()
    return found.values, found.indices


def _discrete(numbers: Tensor, place: int) -> Tensor:
    """Exponents of 4, which generates all squares modulo the prime of a level (Shanks 1971); 0 for 0."""
    prime = _PRIMES[place]
    powers, exponents = _baby_steps(place)
    # Of a number and its opposite one is a square, as -1 is none.
    square = power_of(numbers, _PRIMES[place + 1], prime) == 1
    rest = torch.where(square, numbers, prime - numbers) % prime
    giant = pow(4, -_STEPS, prime)
    found = torch.zeros_like(numbers)
    open_ = (numbers != 0).nonzero().squeeze(1)
    for step in range(_PRIMES[place + 1] // _STEPS + 1):
        own = rest[open_]
        spots = torch.searchsorted(powers, own).clamp(max=_STEPS - 1)
        hit = powers[spots] == own
        found[open_[hit]] = exponents[spots[hit]] + step * _STEPS
        open_ = open_[~hit]
        if not len(open_):
            break
        rest[open_] = rest[open_] * giant % prime
    return found % _PRIMES[place + 1]


def power_of(numbers: Tensor, exponent: int, prime: int) -> Tensor:
    """Powers modulo one prime."""
    found = torch.ones_like(numbers)
    for bit in f"{exponent:b}":
        found = found * found % prime
        found = found * numbers % prime if bit == "1" else found
    return found


def smooth(value: float) -> bool:
    """Whether a number is a whole one that is a base of `exponential`: a square modulo all primes, by its factors."""
    if laws() == "turning" or value != int(value) or not 1 < value < 1 << 40:
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
