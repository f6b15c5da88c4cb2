"""Sets of sizes beyond a task's own, at which dims do not follow from each other by a line.

Two sets of sizes determine a line through each pair of dims: with (M, N) = (5, 7) and (6, 4), `22 - 3*M` is N at both,
so that a program may compute with one for the other. A further set lies beside every such line. It keeps what all own
sets have in common, which the task may rely on: the order of two dims, equality, that one divides another, sums and
products of three, and a divisor of each.

Any number of sets determines a polynomial. A program that computes with dims is therefore tried at sizes that nobody
knows before it is written: they are drawn, from a seed that the program determines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from math import gcd
from operator import add, mul
from random import Random
from typing import NamedTuple

from step_runtime.tasks.task import Task

_FINEST = 64
"""The divisor of a dim that is kept first: sizes near the own ones cost no more than these."""
_CHOICES = 24
"""Sizes that are tried for a dim."""
_STEPS = 20_000
"""Sizes that are tried in all."""


class _Attempt(NamedTuple):
    """What to keep beside the common relations: the largest divisor of a dim, and constant ratios."""

    divisor: int | None
    ratios: bool


_ATTEMPTS = (_Attempt(_FINEST, False), _Attempt(None, False), _Attempt(None, True))


def further_sets(task: Task, random: Random | None = None) -> Iterator[dict[str, int]]:
    """Sets of sizes to try one after the other, before `global` runs; none where no two dims are on one line.

    That a task is defined there only its code can tell. Sizes that are the same in all own sets stay. With `random`,
    sets are drawn, in place of the smallest ones, and also where no two dims are on one line.
    """
    own = task.size_sets()
    names = sorted(name for name in own[0] if name in task.used_symbols and len({sizes[name] for sizes in own}) > 1)
    lined = [pair for pair in combinations(names, 2) if _on_a_line([(s[pair[0]], s[pair[1]]) for s in own])]
    if not names or (random is None and not lined and len(own) > 2):
        return
    given: list[dict[str, int]] = []
    for attempt in _ATTEMPTS:
        found = _Search(own, names, lined, attempt, random).first()
        if found is not None and found not in given:
            given.append(found)
            yield found


def _on_a_line(points: Sequence[tuple[int, int]]) -> bool:
    """Whether points of a plane lie on one line."""
    (x, y), *others = points
    far = next(((a - x, b - y) for a, b in others if (a, b) != (x, y)), (0, 0))
    return all(far[0] * (b - y) == far[1] * (a - x) for a, b in others)


class Triples:
    """Dims that are the sum or the product of two others in all own sets."""

    def __init__(self, own: Sequence[dict[str, int]], names: Sequence[str]) -> None:
        self._found = [
            (x, y, z, operation)
            for x in names
            for y, z in combinations([name for name in names if name != x], 2)
            for operation in (add, mul)
            if all(sizes[x] == operation(sizes[y], sizes[z]) for sizes in own)
        ]

    def keep(self, now: dict[str, int], name: str) -> bool:
        """Whether all of them that a dim is in, and whose sizes are known, hold."""
        return all(
            now[x] == operation(now[y], now[z])
            for x, y, z, operation in self._found
            if name in (x, y, z) and {x, y, z} <= now.keys()
        )


class _Search:
    """The first set of sizes that keeps the relations and leaves the lines, smaller sizes first."""

    def __init__(
        self,
        own: Sequence[dict[str, int]],
        names: Sequence[str],
        lined: Sequence[tuple[str, str]],
        attempt: _Attempt,
        random: Random | None,
    ) -> None:
        self._own, self._names, self._attempt, self._random = own, names, attempt, random
        self._lined = set(lined)
        self._triples = Triples(own, names)
        self._choices = {name: self._multiples(name) for name in names}
        self._left = _STEPS

    def first(self) -> dict[str, int] | None:
        """The set; None if there is none, or finding it takes too long."""
        for most in range(1 if self._random is None else _CHOICES, _CHOICES + 1):
            found = self._extended({}, most)
            if found is not None:
                return {**self._own[0], **found}
        return None

    def _extended(self, chosen: dict[str, int], most: int) -> dict[str, int] | None:
        """The chosen sizes with those of the other names, one of the first so many choices each."""
        if len(chosen) == len(self._names):
            return chosen
        name = self._names[len(chosen)]
        for size in self._choices[name][:most]:
            self._left -= 1
            if self._left < 0:
                return None
            if self._fits(name, size, chosen):
                found = self._extended({**chosen, name: size}, most)
                if found is not None:
                    return found
        return None

    def _multiples(self, name: str) -> list[int]:
        """New multiples of what divides all own sizes, from the least own size on."""
        sizes = [one[name] for one in self._own]
        step = gcd(*sizes)
        if self._attempt.divisor is not None:
            step = gcd(step, self._attempt.divisor)
        least = -(-min(sizes) // step)
        found = [size for size in range(step * least, step * (least + 2 * _CHOICES), step) if size not in sizes]
        return found if self._random is None else self._random.sample(found, len(found))

    def _fits(self, name: str, size: int, chosen: dict[str, int]) -> bool:
        now = {**chosen, name: size}
        pairs = (pair for each in chosen for pair in permutations((each, name)))
        return all(self._pair(one, other, now) for one, other in pairs) and self._triples.keep(now, name)

    def _pair(self, one: str, other: str, now: dict[str, int]) -> bool:
        """Whether two new sizes keep what all own ones have in common, and leave their line."""
        own = [(sizes[one], sizes[other]) for sizes in self._own]
        x, y = now[one], now[other]
        if all(a == b for a, b in own):
            return x == y
        if all(a <= b for a, b in own) and not x <= y:
            return False
        if x == y and all(a != b for a, b in own):
            return False
        if all(a % b == 0 for a, b in own):
            if x % y:
                return False
            if self._attempt.ratios and len({a // b for a, b in own}) == 1:
                return x // y == own[0][0] // own[0][1]
        if self._attempt.ratios and all(b % a == 0 for a, b in own) and len({b // a for a, b in own}) == 1:
            return True
        return (one, other) not in self._lined or not _on_a_line([*own, (x, y)])
