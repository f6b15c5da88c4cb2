"""Arithmetic on residues, by which exact numbers are compared.

A number is held by its residues in `WORLDS` independent worlds, on `LEVELS` levels each: a tensor of `CHANNELS` words
in front of all other dims. Level 0 is what is compared, modulo a prime of 63 bits. The prime of each level is twice
that of the next one, and 1 (a Cunningham chain), so that an exponential of level `l` takes its exponent from level
`l + 1`, and makes products of sums. Primes, inputs, symbols and bases are drawn from a digest of the task, the program
and this prover, so that no program can be written for them. Equal rational functions of independent numbers have equal
residues, others hardly ever (Schwartz 1980, Zippel 1979).
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

WORLDS = 3
LEVELS = 3
CHANNELS = WORLDS * LEVELS
_LONG = torch.int64
_HALF = 32
_LIMB = 21
_DIGIT = 8
_LEAST = 1 << 60
_BLOCK = 1 << 11
BLOCKS = (1 << 59) // (120 * _BLOCK)
"""Blocks of numbers of which one is drawn, again if it has no chain of primes, as one in four has none."""

Laws = Literal["gathered", "linear", "leading", "masked"]
"""How logarithms add up, and roots multiply.

`gathered`: a sum of logarithms is the symbol of the product, and a product of roots that of the root of the product.
`linear`: each is a symbol, and sums are sums. `leading`: likewise, but the logarithm of a sum above 0 is that of its
first term and a symbol of their quotient, so that factors come out of it. `masked`: gathered; and where data choose
minus infinity, or what stands for it, its exponential is a symbol, which stands for one that goes to 0.
"""
Word = tuple[int, int]
T = TypeVar("T")


@dataclass(frozen=True)
class Draw:
    """One draw of everything that is random, from a digest.

    Attributes:
        seeds: Random words by name and count.
        inverses: The sizes of numbers that were inverted, and how many they were at once.
        numbers: Constants without dims that were met.
    """

    digest: bytes
    laws: Laws = "gathered"
    seeds: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    inverses: dict[Hashable, tuple[Any, int]] = field(default_factory=dict)
    numbers: dict[Hashable, Any] = field(default_factory=dict)

    @cached_property
    def primes(self) -> tuple[tuple[int, ...], ...]:
        """By level, those of each world."""
        drawn = (_chain(self.seed(f"prime {number}")) for number in itertools.count())
        return tuple(zip(*itertools.islice(filter(None, drawn), WORLDS), strict=True))

    @cached_property
    def moduli(self) -> Tensor:
        """The primes of the channels: those of level 0 come first."""
        return torch.tensor([prime for level_ in self.primes for prime in level_], dtype=_LONG)

    @cached_property
    def powers(self) -> Tensor:
        """The powers of a base by each digit of an exponent, `(channels, places, digits)`."""
        rows = []
        for channel, prime in enumerate(self.moduli.tolist()[: CHANNELS - WORLDS]):
            # Of the order that is the prime of the next level.
            rows += [row := [pow(self.seed(f"e {channel}") % prime, 2, prime)]]
            for _ in range(63 // _DIGIT * _DIGIT + _DIGIT - 1):
                row.append(row[-1] ** 2 % prime)
        squares = torch.tensor(rows, dtype=_LONG).reshape(CHANNELS - WORLDS, -1, _DIGIT)
        found = torch.ones_like(squares[:, :, :1])
        for bit in range(_DIGIT):
            found = torch.cat((found, times(found, squares[:, :, bit : bit + 1])), 2)
        return found

    @property
    def gathers(self) -> bool:
        """Whether sums of logarithms and products of roots are gathered."""
        return self.laws in ("gathered", "masked")

    def seed(self, text: str) -> int:
        """Random bits for a text."""
        return int.from_bytes(hashlib.sha256(self.digest + text.encode()).digest()[:8], "big", signed=True)


_DRAW: ContextVar[Draw] = ContextVar("draw")


@contextmanager
def within(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Within the context, the variable has this value."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def drawing(draw: Draw) -> AbstractContextManager[None]:
    """Within the context, residues are those of this draw."""
    return within(_DRAW, draw)


def draw() -> Draw:
    """The draw in use."""
    return _DRAW.get()


@lru_cache(256)
def _chain(block: int) -> tuple[int, ...] | None:
    """The first chain of primes in a block of numbers, the largest first, if there is one.

    Each is 119 modulo 120, so that 2, 3 and 5 are squares, and -1 is not.
    """
    start = _LEAST // 120 + block % BLOCKS * _BLOCK
    there = np.ones(_BLOCK, dtype=bool)
    for factor in _FACTORS:
        step = pow(120, -1, factor)
        for top, bottom in ((0, 1), (-1, 2), (-3, 4)):
            root = top * pow(bottom, -1, factor)
            there[(root - 120 * start - 119) * step % factor :: factor] = False
    for place in np.flatnonzero(there).tolist():
        last = 120 * (start + place) + 119
        middle, first = 2 * last + 1, 4 * last + 3
        # That 2 has the order of the one below proves each above the last (Pocklington 1914).
        if pow(2, last - 1, last) == pow(2, middle - 1, middle) == pow(2, first - 1, first) == 1 and _prime(last):
            return first, middle, last
    return None


_FACTORS = [number for number in range(7, 400) if all(number % other for other in range(2, 20) if other < number)]


def _prime(number: int) -> bool:
    """Miller and Rabin's test, which makes no error below 2^64 by these bases."""
    twos = ((number - 1) & (1 - number)).bit_length() - 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        power_ = pow(base, (number - 1) >> twos, number)
        if power_ != 1 and number - 1 not in (pow(power_, 1 << place, number) for place in range(twos)):
            return False
    return True


def moduli(like: Tensor) -> Tensor:
    """The moduli in the shape of residues, for broadcasting."""
    return draw().moduli[: like.shape[0]].view(-1, *(1,) * (like.dim() - 1))


def level(data: Tensor) -> Tensor:
    """The residues by which numbers are compared, of all."""
    return data[:WORLDS]


# --- random bits ---

_MIXERS = (-4658895280553007687, -7723592293110705685)


def mixed(words: Tensor) -> Tensor:
    """Bits that look as if drawn at random, the same for the same words."""
    words = (words ^ (words >> 30)) * _MIXERS[0]
    words = (words ^ (words >> 27)) * _MIXERS[1]
    return words ^ (words >> 31)


def fingerprint(residues: Tensor) -> Tensor:
    """Two words for each number, of shape (2, ...), from the residues by which it is compared."""
    own = level(residues)
    return mixed(mixed(own + _seeds("fingerprint", 2 * WORLDS).view(2, WORLDS, *(1,) * (own.dim() - 1))).sum(1))


def symbols(name: str, words: Tensor) -> Tensor:
    """The residues of free symbols, by a name and two words each; of shape (CHANNELS, ...)."""
    own = words[_ALTERNATING] + _seeds(name, CHANNELS).view(CHANNELS, *(1,) * (words.dim() - 1))
    return (mixed(own) & 0x7FFF_FFFF_FFFF_FFFF) % moduli(own)


_ALTERNATING = torch.arange(CHANNELS) % 2


def _seeds(name: str, count: int) -> Tensor:
    kept = draw().seeds
    if (name, count) not in kept:
        kept[name, count] = torch.tensor([draw().seed(f"{name} {number}") for number in range(count)], dtype=_LONG)
    return kept[name, count]


# --- arithmetic ---


def times(one: Tensor, other: Tensor) -> Tensor:
    """Products: the quotient by the prime is estimated in float64, for the upper and the lower half of a factor."""
    left, right = one.numpy(), other.numpy()
    primes = draw().moduli.numpy()[: len(left)].reshape(-1, *(1,) * (max(left.ndim, right.ndim) - 1))
    scaled = left / primes
    count = (scaled * (right >> _HALF)).astype(np.int64)
    count *= primes
    upper = left * (right >> _HALF) - count
    lower = right & ((1 << _HALF) - 1)
    scaled = scaled * lower
    scaled += upper / primes * (1 << _HALF)
    count = scaled.astype(np.int64)
    count *= primes
    upper <<= _HALF
    upper += left * lower
    upper -= count
    upper += (upper >> 63) & primes
    upper -= primes
    upper += (upper >> 63) & primes
    return torch.from_numpy(upper)


def total(data: Tensor, dims: list[int], *, keep: bool = False) -> Tensor:
    """Sums over dims of the tensor."""
    low = (data & ((1 << _HALF) - 1)).sum(dims, keepdim=keep)
    return (_shifted((data >> _HALF).sum(dims, keepdim=keep), _HALF) + low) % moduli(low)


def _shifted(numbers: Tensor, bits: int) -> Tensor:
    """Numbers times a power of 2 of 32 at most."""
    modulus = moduli(numbers)
    numbers = numbers % modulus
    return (numbers << bits) - (numbers.double() / modulus * (1 << bits)).long() * modulus


def product(one: Tensor, other: Tensor) -> Tensor:
    """Products of matrices of residues, `(CHANNELS, ..., n, k)` and `(CHANNELS, ..., k, m)`, by limbs in float64."""
    rows, size, columns = one.shape[-2], one.shape[-1], other.shape[-1]
    if size > 1 << 10:
        half = size // 2
        parts = [product(one[..., own], other[..., own, :]) for own in (slice(half), slice(half, None))]
        return (parts[0] - parts[1].neg() % moduli(parts[1])) % moduli(parts[0])
    mask = (1 << _LIMB) - 1
    left, right = (
        torch.cat([(each >> place * _LIMB & mask).double() for place in range(3)], dim)
        for each, dim in ((one, -2), (other, -1))
    )
    blocks = torch.matmul(left, right).long()
    found = torch.zeros(1, dtype=_LONG)
    for place in range(4, -1, -1):
        own = sum(
            blocks[..., rows * first : rows * (first + 1), columns * (place - first) : columns * (place - first + 1)]
            for first in range(max(0, place - 2), min(2, place) + 1)
        )
        assert isinstance(own, Tensor)
        found = own if place == 4 else (_shifted(found, _LIMB) + own) % moduli(own)
    return found


def inverse(values: Tensor) -> Tensor:
    """Inverses; 0 for 0: by that of one product of pairs after another (Montgomery 1987)."""
    flat = values.reshape(CHANNELS, -1)
    count = flat.shape[1]
    if count < 8:
        pairs = zip(flat.tolist(), draw().moduli.tolist(), strict=True)
        own = [[pow(one, -1, prime) if one else 0 for one in row] for row, prime in pairs]
        return torch.tensor(own, dtype=_LONG).reshape(values.shape)
    zero = flat == 0
    safe = torch.where(zero, 1, flat)
    if count % 2:
        safe = torch.cat((safe, torch.ones_like(safe[:, :1])), 1)
    one, other = safe[:, 0::2], safe[:, 1::2]
    both = inverse(times(one, other))
    found = torch.stack((times(both, other), times(both, one)), 2).flatten(1)[:, :count]
    return torch.where(zero, 0, found).reshape(values.shape)


def exponential(exponents: Tensor) -> Tensor:
    """Powers of a base drawn at random, on all levels but the last, of exponents from the levels below."""
    flat = exponents[WORLDS:].reshape(CHANNELS - WORLDS, -1)
    found = torch.ones(1, dtype=_LONG)
    for place in range(draw().powers.shape[1]):
        own = draw().powers[:, place].gather(1, flat >> place * _DIGIT & ((1 << _DIGIT) - 1))
        found = times(found, own) if place else own
    return found.reshape(CHANNELS - WORLDS, *exponents.shape[1:])
