"""Decisions by data with concrete outcomes, and whether all outcomes have been tried.

Which numbers a row's top-k gives, or the sign of a number, is a decision: it has a key made of the residues of what it
is about, and a number of outcomes. In one trial each key has one outcome, on both sides, whoever asks. Whatever the
data are, their outcomes are those of some trial, if the trials take all of them. A result depends on some decisions
only, which masks follow number by number.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar

import torch
from torch import Tensor

from step_runtime.verification.exact import facts
from step_runtime.verification.exact.residues import Word, fingerprint, inverse, times, within
from step_runtime.verification.exact.value import WORDS, Unknown, opposite

Key = Hashable
_BITS = 62
_PATTERNS = 256
"""Outcomes of what depends on each other that are tried, at most."""


class Row:
    """A row of distinct numbers that was ranked; its order is decided from the first rank on, as far as it is needed.

    `largest` says whether the first rank is that of the largest number. Whoever asks, for how much of it, finds the
    same order.
    """

    def __init__(self, words: Sequence[Word], decisions: Decisions, *, largest: bool) -> None:
        self._key = (tuple(words), largest)
        self._largest = largest
        self._decisions = decisions
        self._order: list[Word] = []
        self._rest = list(words)

    def at(self, rank: int) -> Word:
        """The member of a rank."""
        while len(self._order) <= rank:
            key = (self._key, len(self._order))
            self._order.append(self._rest.pop(self._decisions.outcome(key, len(self._rest))))
        return self._order[rank]

    def mask(self, ranks: int) -> int:
        """The mask of the decisions on the first ranks."""
        return self._decisions.mask([(self._key, place) for place in range(ranks)])


class Decisions:
    """The outcomes of one trial.

    Attributes:
        counts: The number of outcomes of each decision that was made.
        ranks: Whether the order of rows is decided.
        signs: Whether signs are.
        whole: Whether inputs of few whole numbers are.
        wanted: Whether a rank or a sign was asked for that is left open.
        masked: Whether data chose what stands for minus infinity.
    """

    def __init__(
        self,
        outcomes: Mapping[Key, int] | None = None,
        ranks: bool = True,
        signs: bool = False,
        whole: bool = False,
    ) -> None:
        self._outcomes = outcomes or {}
        self.ranks, self.signs, self.whole = ranks, signs, whole
        self.counts: dict[Key, int] = {}
        self.wanted = self.masked = False
        self._places: dict[Key, int] = {}
        self._rows: dict[Key, Row] = {}
        self._signed: dict[Word, Tensor] = {}
        self._alike: dict[Word, Word] = {}

    def outcome(self, key: Key, count: int) -> int:
        """The outcome of a decision that has so many; the first one where none is set."""
        if count == 1:
            return 0
        if key not in self.counts:
            self.counts[key], self._places[key] = count, len(self._places)
        return self._outcomes.get(key, 0)

    def mask(self, keys: Sequence[Key]) -> int:
        """The mask of decisions."""
        return sum(1 << self._places[key] for key in keys if key in self._places)

    def keys(self, mask: int) -> set[Key]:
        """The decisions of a mask."""
        return {key for key, place in self._places.items() if mask >> place & 1}

    def row(self, numbers: Tensor, *, largest: bool, smooth: bool) -> tuple[Row, list[Word]] | None:
        """The row of some distinct numbers, `(CHANNELS, n)`, and its members in the order given.

        None of a new row that is not smooth, as `relu` gives: its numbers may be equal for many inputs.
        """
        words = words_of(numbers)
        key = (tuple(sorted(words)), largest)
        if key in self._rows:
            return self._rows[key], words
        if not smooth:
            return None
        row = self._rows[key] = Row(sorted(words), self, largest=largest)
        return row, words

    @property
    def ranked(self) -> bool:
        """Whether any row was ranked."""
        return bool(self._rows)

    def sign(self, word: Word, opposite: Word) -> tuple[int, int]:
        """The sign of a number that is not 0 as a formula, and the mask."""
        word, opposite = self._alike.get(word, word), self._alike.get(opposite, opposite)
        key = min(word, opposite)
        sign = (1, -1, 0)[self.outcome(key, 3)]
        return sign if key == word else -sign, self.mask([key])

    def relate(self, numbers: Tensor) -> None:
        """Finds numbers, `(CHANNELS, n)`, whose quotients are positive: they have one sign, by one decision.

        They depend on no decisions, so that it is the same whatever the outcomes are.
        """
        words, opposites = words_of(numbers), words_of(opposite(numbers))
        new = [place for place, word in enumerate(words) if word not in self._alike]
        if new and self._signed:
            own, before = numbers[:, new], torch.stack([*self._signed.values()], 1)
            quotients = times(own.unsqueeze(2), inverse(before).unsqueeze(1))
            turned = times(before.unsqueeze(1), inverse(own).unsqueeze(2))
            above = facts.positive(quotients) | facts.positive(turned)
            earlier = [*self._signed]
            for number, other in above.nonzero().tolist():
                self._alike.setdefault(words[new[number]], self._alike[earlier[other]])
                back = words_of(opposite(before[:, other : other + 1]))[0]
                self._alike.setdefault(opposites[new[number]], self._alike[back])
        for place in new:
            self._alike.setdefault(words[place], words[place])
            self._alike.setdefault(opposites[place], opposites[place])
            self._signed[words[place]] = numbers[:, place]


_CURRENT: ContextVar[Decisions | None] = ContextVar("decisions", default=None)


def deciding(decisions: Decisions) -> AbstractContextManager[None]:
    """Within the context, what is decided by data is decided by these."""
    return within(_CURRENT, decisions)


def current() -> Decisions | None:
    """The decisions in use."""
    return _CURRENT.get()


def signs(data: Tensor, open_: Tensor, masks: Tensor | None) -> tuple[Tensor, Tensor] | None:
    """The signs of the numbers that are open, `(1, ...)`, and the masks; None where they are not decided.

    `masks` are those of the decisions that the numbers depend on.
    """
    decisions = _CURRENT.get()
    if decisions is None or not bool(open_.any()):
        return None
    if not decisions.signs:
        decisions.wanted = True
        return None
    shape = data.shape[1:]
    spots = open_.expand(1, *shape).reshape(-1).nonzero().squeeze(1)
    numbers = data.flatten(1)[:, spots]
    if masks is None or not bool(masks.any()):
        decisions.relate(numbers)
    found, own_masks = torch.zeros(math.prod(shape), dtype=torch.int64), [0] * math.prod(shape)
    for spot, word, back in zip(spots.tolist(), words_of(numbers), words_of(opposite(numbers)), strict=True):
        found[spot], own_masks[spot] = decisions.sign(word, back)
    return found.reshape(1, *shape), mask_tensor(own_masks, shape)


def mask_tensor(masks: Sequence[int], shape: Sequence[int]) -> Tensor:
    """Masks of decisions as words, `(WORDS, *shape)`.

    Raises:
        Unknown: There are too many decisions.
    """
    if masks and max(masks).bit_length() > WORDS * _BITS:
        raise Unknown(f"more than {WORDS * _BITS} decisions by data")
    full = (1 << _BITS) - 1
    words = [[mask >> _BITS * word & full for mask in masks] for word in range(WORDS)]
    return torch.tensor(words, dtype=torch.int64).reshape(WORDS, *shape)


def words_of(numbers: Tensor) -> list[Word]:
    """The fingerprints of numbers."""
    return [(one, other) for one, other in fingerprint(numbers).reshape(2, -1).T.tolist()]


class Cover:
    """Goes through the outcomes of decisions until each result has seen all of those that it depends on.

    Decisions on which one result depends belong to one group, of which all joint outcomes are tried, those of several
    groups at the same time. Where a trial shows further decisions, or a group that grows, it begins again.
    """

    def __init__(self) -> None:
        self._counts: dict[Key, int] = {}
        self._groups: list[set[Key]] = []
        self.trials = 0

    def outcomes(self) -> Iterator[dict[Key, int]]:
        """The outcomes of each trial, after each of which `see` is called.

        Raises:
            Unknown: There are too many.
        """
        turn, turns = 0, 1
        while turn < turns:
            before = len(self._counts), len(self._groups)
            found: dict[Key, int] = {}
            for group in self._groups:
                rest = turn
                for key in (key for key in self._counts if key in group):
                    rest, found[key] = divmod(rest, self._counts[key])
            yield found
            self.trials += 1
            turns = max([math.prod(self._counts[key] for key in group) for group in self._groups], default=1)
            if turns > _PATTERNS:
                raise Unknown(f"decisions by data, of which {turns:,} outcomes belong together")
            # The first trial, with the first outcome of all, is the same whatever is decided.
            turn = turn + 1 if (len(self._counts), len(self._groups)) == before else 1

    def see(self, decisions: Decisions, masks: Sequence[Tensor]) -> None:
        """Takes note of a trial, and of the decisions that each result depended on, `(WORDS, results)` each."""
        for words in {tuple(column) for each in masks for column in each.T.tolist()}:
            keys = decisions.keys(sum(word << _BITS * place for place, word in enumerate(words)))
            if not keys:
                continue
            self._counts |= {key: decisions.counts[key] for key in decisions.counts if key in keys}
            touched = [group for group in self._groups if group & keys]
            self._groups = [group for group in self._groups if not group & keys] + [keys.union(*touched)]
