"""What is found out about numbers in one draw of worlds: truth values of their places, and which are positive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import torch
from torch import Tensor

from step_runtime.verification.exact.residues import Word, fingerprint, level


@dataclass(frozen=True)
class Known:
    """What was found out about numbers in one draw of worlds, by their fingerprints.

    Attributes:
        places: Of places, the truth values of being each one, `(CHANNELS, places)`.
        positive: First words of numbers that are above 0 whatever the data are.
    """

    places: dict[Word, Tensor] = field(default_factory=dict)
    positive: list[Tensor] = field(default_factory=list)


_KNOWN: ContextVar[Known] = ContextVar("known")


def set_places(numbers: Tensor, hot: Tensor) -> None:
    """Keeps which truth values, `(CHANNELS, places, ...)`, some numbers, `(CHANNELS, ...)`, are the place of."""
    rows = hot.flatten(2)
    for number, word in enumerate(fingerprint(numbers).reshape(2, -1).T.tolist()):
        _KNOWN.get().places[word[0], word[1]] = rows[:, :, number]


def places_of(numbers: Tensor) -> list[Tensor | None]:
    """The truth values kept for each number."""
    kept = _KNOWN.get().places
    words = fingerprint(numbers).reshape(2, -1).T.tolist() if kept else []
    return [kept.get((one, other)) for one, other in words]


def set_positive(numbers: Tensor) -> None:
    """Keeps that numbers are above 0 whatever the data are, those that are not 0."""
    _KNOWN.get().positive.append(fingerprint(numbers)[0][(level(numbers) != 0).any(0)])


def positive(words: Tensor) -> Tensor:
    """Which numbers are kept as positive, by the first words of their fingerprints."""
    kept = _KNOWN.get().positive
    return torch.isin(words, torch.cat(kept)) if kept else torch.zeros_like(words, dtype=torch.bool)


@contextmanager
def keeping(known: Known) -> Iterator[None]:
    """Within the context, what is found out is kept there."""
    token = _KNOWN.set(known)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def apart() -> AbstractContextManager[None]:
    """A context within which what is found out is forgotten again."""
    known = _KNOWN.get()
    return keeping(Known({**known.places}, [*known.positive]))
