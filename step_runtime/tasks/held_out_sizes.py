"""Sets of sizes that no verdict of a run has seen: drawn from a seed, with primes and equal dims among them.

Three kinds, each for one way in which a program may fit the sizes that it was tried at:

- `primes`: dims are primes where they can be, so that no literal and no split into parts fits them by chance;
- `equal`: dims share a size where they can, so that a program that tells dims apart by their size is found;
- `free`: no dim keeps a divisor or a ratio, such as being even, and dims of streams that are the same in all own sets
  vary too. Dims that are equal in all own sets differ, where the task's code runs then. Dims of elements alone, such as
  the number of experts, stay: programs name each of them.

All keep the sums and products that the own sets have in common; the first two also keep equalities, order and divisors.
Whether a task is defined at a set only its code can tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from math import gcd
from random import Random
from typing import Literal

from step_runtime.tasks.further_sizes import Triples
from step_runtime.tasks.task import Task

Kind = Literal["primes", "equal", "free"]
KINDS: tuple[Kind, ...] = ("primes", "equal", "free")

_DRAWS = 3
"""Sets of each kind, and as many that leave equalities, from which the first is taken at which the task's code runs."""
_FURTHER = 8
"""How far beyond the largest own size a dim may be, or the fewest steps that are as far."""
_STEPS = 5_000
"""Sizes that are tried for a set."""


def held_out_sets(task: Task, kind: Kind, random: Random) -> Iterator[dict[str, int]]:
    """Sets of sizes of one kind to try one after the other, before `global` runs; none that the task names."""
    own = task.size_sets()
    streams = (*task.input_types, *task.output_types)
    outer = {symbol.name for stream in streams for dim in stream.shape for symbol in dim.free_symbols}
    names = sorted(
        name
        for name in own[0]
        if name in task.used_symbols and (len({sizes[name] for sizes in own}) > 1 or (kind == "free" and name in outer))
    )
    given = list(own)
    for apart in [True] * _DRAWS * (kind == "free") + [False] * _DRAWS if names else ():
        found = _Drawing(own, names, kind, random, apart).drawn()
        if found is not None and found not in given:
            given.append(found)
            yield found


@dataclass
class _Drawing:
    """One set, drawn a dim at a time; what does not fit the dims before it is drawn again."""

    own: Sequence[dict[str, int]]
    names: Sequence[str]
    kind: Kind
    random: Random
    apart: bool
    left: int = _STEPS
    shared: list[int] = field(default_factory=list)

    def drawn(self) -> dict[str, int] | None:
        """The set; None if there is none, or finding it takes too long."""
        self.shared = self.random.sample(range(10**6), 2)
        choices = {name: self._choices(name) for name in self.names}
        found = self._extended({}, choices)
        return None if found is None else {**self.own[0], **found}

    def _extended(self, chosen: dict[str, int], choices: dict[str, list[int]]) -> dict[str, int] | None:
        if len(chosen) == len(self.names):
            return chosen
        name = self.names[len(chosen)]
        for size in choices[name]:
            self.left -= 1
            if self.left < 0:
                return None
            if self._fits({**chosen, name: size}, name):
                found = self._extended({**chosen, name: size}, choices)
                if found is not None:
                    return found
        return None

    def _choices(self, name: str) -> list[int]:
        """New sizes in the order in which they are tried."""
        sizes = [one[name] for one in self.own]
        step, new = self._range(name)
        if self.kind == "equal":
            # In one order for all dims: first what most of them can have.
            ranges = [self._range(each)[1] for each in self.names]
            return sorted(new, key=lambda size: (-sum(size in each for each in ranges), hash((size, *self.shared))))
        found = [size for size in new if size not in sizes]
        self.random.shuffle(found)
        # Where the step is 1, the divisor that all own sizes share is lost; 2 is a prime, but even.
        return sorted(found, key=lambda size: (gcd(size // step, *sizes) > 1, not _is_prime(size // step)))

    def _range(self, name: str) -> tuple[int, range]:
        """The step between a dim's sizes, and the sizes."""
        sizes = [one[name] for one in self.own]
        step = 1 if self.kind == "free" else gcd(*sizes)
        least, most = max(2, min(sizes) // 2), max(sizes) + step * -(-_FURTHER // step)
        return step, range(-(-least // step) * step, most + 1, step)

    @cached_property
    def _triples(self) -> Triples:
        return Triples(self.own, self.names)

    def _fits(self, now: dict[str, int], name: str) -> bool:
        pairs = (pair for each in now if each != name for pair in permutations((each, name)))
        return all(self._keeps(one, other, now) for one, other in pairs) and self._triples.keep(now, name)

    def _keeps(self, one: str, other: str, now: dict[str, int]) -> bool:
        """Whether two sizes keep what those of all own sets have in common."""
        own = [(sizes[one], sizes[other]) for sizes in self.own]
        x, y = now[one], now[other]
        if len(own) > 1 and all(a == b for a, b in own) and not self.apart:
            return x == y
        if self.kind == "free":
            return x != y
        ordered = all(a <= b for a, b in own)
        divided = all(a % b == 0 for a, b in own)
        return (x <= y or not ordered) and (x % y == 0 or not divided)


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))
