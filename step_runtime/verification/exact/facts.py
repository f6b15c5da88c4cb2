"""What is found out about numbers in one draw of worlds: truth values of places, what is positive, what is required."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field

import torch
from torch import Tensor

from step_runtime.verification.exact.residues import WORLDS, Word, draw, fingerprint, level, within

NOT_0, ABOVE_0, AT_LEAST_0, POWER, FINITE = 1, 2, 3, 4, 5
"""The conditions under which results are defined."""
_MOST_CONDITIONS = 200
_SCALES = range(1, 33)
"""By ratios of these, conditions on multiples are recognized."""
Condition = tuple[int, ...]
_SIGNS = [*itertools.product((1, -1), repeat=WORLDS)]


@dataclass(frozen=True)
class Known:
    """What was found out about numbers by their fingerprints.

    Attributes:
        places: Of places, the truth values of being each one, `(CHANNELS, places)`.
        positive: Numbers that are above 0 whatever the data are, `(WORLDS, count)`.
        domain: The conditions under which all is defined, `(kind, *residues)`: which numbers are not 0, or above 0.
        granted: Those that hold for all inputs.
    """

    places: dict[Word, Tensor] = field(default_factory=dict)
    positive: list[Tensor] = field(default_factory=list)
    domain: set[Condition] = field(default_factory=set)
    granted: set[Condition] = field(default_factory=set)

    def apart(self) -> Known:
        """The same, to which more may be added, without the conditions."""
        return Known({**self.places}, [*self.positive])


_KNOWN: ContextVar[Known] = ContextVar("known")


def set_places(numbers: Tensor, hot: Tensor) -> None:
    """Keeps which truth values, `(CHANNELS, places, ...)`, some numbers, `(CHANNELS, ...)`, are the place of."""
    rows = hot.flatten(2)
    for place, word in enumerate(fingerprint(numbers).reshape(2, -1).T.tolist()):
        _KNOWN.get().places[word[0], word[1]] = rows[:, :, place]


def places_of(numbers: Tensor) -> list[Tensor | None]:
    """The truth values kept for each number."""
    kept = _KNOWN.get().places
    words = fingerprint(numbers).reshape(2, -1).T.tolist() if kept else []
    return [kept.get((one, other)) for one, other in words]


def set_positive(numbers: Tensor) -> None:
    """Keeps that numbers are above 0 whatever the data are."""
    _KNOWN.get().positive.append(level(numbers).flatten(1))


def positive(numbers: Tensor, *known: Known) -> Tensor:
    """Which numbers are kept as positive."""
    own = [each for one in known or (_KNOWN.get(),) for each in one.positive]
    kept = torch.cat([*own, torch.ones(WORLDS, 1, dtype=torch.int64)], 1)
    return torch.isin(fingerprint(numbers)[0], fingerprint(kept)[0])


def require(kind: int, numbers: Tensor, some: Tensor, granted: Tensor) -> bool:
    """Keeps that some of the numbers have to meet a condition for all to be defined; whether there are any.

    `granted` are those that meet it for all inputs, as is known of them here, and may not be elsewhere.
    """
    known = _KNOWN.get()
    for which, kept in ((some, known.domain), (granted, known.granted)):
        if bool(which.any()):
            flat, places = level(numbers).broadcast_to(WORLDS, *which.shape[1:]), which.flatten()
            kept.update((kind, *column) for column in flat.flatten(1)[:, places].T.tolist())
    return bool(some.any())


def undischarged(one: Known, other: Known) -> int:
    """How many conditions of one do not follow from those of the other.

    A condition follows from one on a multiple by a positive number, that a product is not 0 from its factors, and for
    factors from their product; that 0 is not 0 follows from nothing. Under the laws `masked`, what holds where large
    constants are numbers says nothing of where they are infinite.
    """
    if (NOT_0, *(0,) * WORLDS) in one.domain:
        return 1
    if draw().laws == "masked":
        return len(one.domain - other.domain)
    missing = one.domain - other.domain - other.granted - one.granted
    if not missing or max(len(missing), len(other.domain)) > _MOST_CONDITIONS:
        return len(missing)
    primes = draw().moduli[:WORLDS].tolist()
    ratios = {top * pow(below, -1, primes[0]) % primes[0]: (top, below) for top in _SCALES for below in _SCALES}

    def inverse(numbers: Sequence[int]) -> list[int]:
        return [pow(x, -1, prime) if x else 0 for x, prime in zip(numbers, primes, strict=True)]

    def times(first: Sequence[int], second: Sequence[int]) -> list[int]:
        return [x * y % prime for x, y, prime in zip(first, second, primes, strict=True)]

    def nonzero(numbers: Sequence[int]) -> Condition:
        return (NOT_0, *(min(x, prime - x) for x, prime in zip(numbers, primes, strict=True)))

    def follows(kind: int, own: Sequence[int]) -> bool:
        quotients = [times(own, its) for its_kind, its in theirs if its_kind == kind]
        for each in quotients:
            top, below = ratios.get(each[0]) or (kind == NOT_0 and ratios.get(primes[0] - each[0])) or (0, 0)
            if top and nonzero(times(each, [below] * WORLDS)) == nonzero([top] * WORLDS):
                return True
        turns = _SIGNS if kind == NOT_0 else _SIGNS[:1]
        signed = [times(each, turn) for each in quotients for turn in turns]
        both = [*signed, *map(inverse, signed)]
        if both and bool(positive(torch.tensor(both).T, one, other).any()):
            return True
        products = [nonzero(each) for each in quotients] + [nonzero(times(own, rest)) for rest in ours]
        return kind == NOT_0 and not other.domain.isdisjoint(products)

    theirs = [(kind, inverse(rest)) for kind, *rest in other.domain]
    ours = [rest for kind, *rest in one.domain if kind == NOT_0]
    return sum(not follows(kind, own) for kind, *own in missing)


def keeping(known: Known) -> AbstractContextManager[None]:
    """Within the context, what is found out is kept there."""
    return within(_KNOWN, known)
