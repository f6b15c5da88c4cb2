"""Sets of sizes beyond a task's own: what a program is tried at so that it cannot be right only where it was written.

All keep the sums and products that the own sets have in common, and, unless they are free of them, the order of two
dims, that one divides another, and a divisor of each: the task may rely on these. Whether a task is defined at a set
only its code can tell.

- `further` sets are small and lie beside every line through the own ones. Two sets of sizes determine a line through
  each pair of dims: with (M, N) = (5, 7) and (6, 4), `22 - 3*M` is N at both. Any number of sets determines a
  polynomial, so for a program that computes with dims others are drawn, from a seed that the program determines.
- `held_out` sets are drawn from a run's seed: dims are primes where they can be, so that no literal and no split into
  parts fits them by chance; or share a size, so that a program that tells dims apart by their size is found; or are
  free: no dim keeps a divisor, an order or a ratio, and dims of streams that are the same in all own sets vary too.
- `completed` sets have given sizes of some dims: those at which a program changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import gcd
from operator import add, mul
from random import Random
from typing import Literal, NamedTuple, TypeAlias

from step_runtime.tasks.task import Task

SizeSet: TypeAlias = dict[str, int]
Kind = Literal["primes", "equal", "free"]
KINDS: tuple[Kind, ...] = ("primes", "equal", "free")

_FINEST = 64
"""The divisor of a dim that is kept first: sizes near the own ones cost no more than these."""
_CHOICES = 24
"""Sizes of a dim that are tried for a further set."""
_DRAWS = 3
"""Held-out sets of each kind, from which the first is taken at which the task's code runs."""
_REACH = 8
"""How far beyond the largest own size a held-out dim may be, or the fewest steps that are as far."""
_STEPS = 20_000
"""Sizes that are tried for a set."""


@dataclass(frozen=True)
class _Kept:
    """What a set keeps of the own ones: equalities; order and divisors; constant ratios. Or whether it leaves lines."""

    equal: bool = True
    order: bool = True
    ratios: bool = False
    apart: bool = False


class _Common(NamedTuple):
    """What two dims have in common in all own sets: equality, order, a divisor; the ratio, or that of the other way."""

    pairs: list[tuple[int, int]]
    equal: bool
    unequal: bool
    at_most: bool
    multiple: bool
    ratio: int | None
    inverse: bool

    @classmethod
    def of(cls, own: list[tuple[int, int]]) -> _Common:
        multiple = all(a % b == 0 for a, b in own)
        ratios, inverse = {a // b for a, b in own}, {b // a for a, b in own}
        return cls(
            own,
            equal=len(own) > 1 and all(a == b for a, b in own),
            unequal=all(a != b for a, b in own),
            at_most=all(a <= b for a, b in own),
            multiple=multiple,
            ratio=own[0][0] // own[0][1] if multiple and len(ratios) == 1 else None,
            inverse=all(b % a == 0 for a, b in own) and len(inverse) == 1,
        )


class _Sets:
    """The relations of a task's own sets, in the dims named, and new sets that keep them."""

    def __init__(self, task: Task, names: Sequence[str]) -> None:
        self.own, self.names = task.size_sets(), names
        self._common = {
            (one, other): _Common.of([(sizes[one], sizes[other]) for sizes in self.own])
            for one, other in permutations(names, 2)
        }
        self.lined = {pair for pair, common in self._common.items() if _on_a_line(common.pairs)}
        self._triples = [
            (x, y, z, operation)
            for x in names
            for y, z in combinations([name for name in names if name != x], 2)
            for operation in (add, mul)
            if all(sizes[x] == operation(sizes[y], sizes[z]) for sizes in self.own)
        ]

    def step(self, name: str) -> int:
        """The largest divisor of all own sizes of a dim."""
        return gcd(*(sizes[name] for sizes in self.own))

    def first(self, choices: Mapping[str, Sequence[int]], kept: _Kept, steps: int = _STEPS) -> SizeSet | None:
        """The first set of these sizes that fits; None if there is none, or finding it takes more steps."""
        left = steps

        def extended(chosen: SizeSet) -> SizeSet | None:
            nonlocal left
            if len(chosen) == len(self.names):
                return {**self.own[0], **chosen}
            name = self.names[len(chosen)]
            for size in choices[name]:
                left -= 1
                if left < 0:
                    return None
                now = {**chosen, name: size}
                if self._fits(now, name, kept) and (found := extended(now)) is not None:
                    return found
            return None

        return extended({})

    def _fits(self, now: SizeSet, name: str, kept: _Kept) -> bool:
        others = (each for each in now if each != name)
        pairs = (pair for each in others for pair in permutations((each, name)))
        return all(self._keeps(one, other, now, kept) for one, other in pairs) and all(
            now[x] == operation(now[y], now[z])
            for x, y, z, operation in self._triples
            if name in (x, y, z) and {x, y, z} <= now.keys()
        )

    def _keeps(self, one: str, other: str, now: SizeSet, kept: _Kept) -> bool:
        """Whether two sizes keep what those of all own sets have in common."""
        own, x, y = self._common[one, other], now[one], now[other]
        if kept.equal and own.equal:
            return x == y
        if not kept.order:
            return x != y
        if (own.at_most and x > y) or (kept.apart and x == y and own.unequal) or (own.multiple and x % y):
            return False
        if kept.ratios and own.ratio is not None:
            return x // y == own.ratio
        if kept.ratios and own.inverse:
            return True
        return not kept.apart or (one, other) not in self.lined or not _on_a_line([*own.pairs, (x, y)])


def _on_a_line(points: Sequence[tuple[int, int]]) -> bool:
    """Whether points of a plane lie on one line."""
    (x, y), *others = points
    far = next(((a - x, b - y) for a, b in others if (a, b) != (x, y)), (0, 0))
    return all(far[0] * (b - y) == far[1] * (a - x) for a, b in others)


def varying(task: Task) -> list[str]:
    """The dims that the task uses and whose sizes differ between its own sets."""
    own = task.size_sets()
    return sorted(name for name in own[0] if name in task.used_symbols and len({sizes[name] for sizes in own}) > 1)


def further_sets(task: Task, random: Random | None = None) -> Iterator[SizeSet]:
    """Sets to try one after the other, before `global` runs; none where no two dims are on one line.

    With `random`, sets are drawn, in place of the smallest ones, and also where no two dims are on one line. Constant
    ratios are kept last.
    """
    sets = _Sets(task, varying(task))
    if not sets.names or (random is None and not sets.lined and len(sets.own) > 2):
        return
    given: list[SizeSet] = []
    for finest, ratios in ((_FINEST, False), (0, False), (0, True)):
        choices = {name: _multiples(sets, name, finest, random) for name in sets.names}
        for most in range(1 if random is None else _CHOICES, _CHOICES + 1):
            shortest = {name: sizes[:most] for name, sizes in choices.items()}
            found = sets.first(shortest, _Kept(ratios=ratios, apart=True))
            if found is not None:
                break
        if found is not None and found not in given:
            given.append(found)
            yield found


def _multiples(sets: _Sets, name: str, finest: int, random: Random | None) -> list[int]:
    """New multiples of what divides all own sizes, from the least own size on."""
    sizes, step = [one[name] for one in sets.own], gcd(sets.step(name), finest)
    least = -(-min(sizes) // step)
    found = [size for size in range(step * least, step * (least + 2 * _CHOICES), step) if size not in sizes]
    return found if random is None else random.sample(found, len(found))


def held_out_sets(task: Task, kind: Kind, random: Random) -> Iterator[SizeSet]:
    """Sets of one kind to try one after the other, before `global` runs; none that the task names.

    Free ones leave the equality of dims that are equal in all own sets first. Dims of elements alone, such as the
    number of experts, stay: programs name each of them.
    """
    own, streams = task.size_sets(), (*task.input_types, *task.output_types)
    outer = {symbol.name for stream in streams for dim in stream.shape for symbol in dim.free_symbols}
    more = {name for name in outer & task.used_symbols if kind == "free" and name in own[0]}
    sets, given = _Sets(task, sorted({*varying(task), *more})), list(own)
    for apart in [True] * _DRAWS * (kind == "free") + [False] * _DRAWS if sets.names else ():
        choices = _drawn(sets, kind, random)
        found = sets.first(choices, _Kept(equal=not apart, order=kind != "free"))
        if found is not None and found not in given:
            given.append(found)
            yield found


def _drawn(sets: _Sets, kind: Kind, random: Random) -> dict[str, list[int]]:
    """The sizes of each dim in the order in which they are tried."""
    shared, choices, ranges = random.sample(range(10**6), 2), {}, {}
    for name in sets.names:
        sizes, step = [one[name] for one in sets.own], 1 if kind == "free" else sets.step(name)
        least, most = max(2, min(sizes) // 2), max(sizes) + step * -(-_REACH // step)
        ranges[name] = step, range(-(-least // step) * step, most + 1, step)
    for name, (step, new) in ranges.items():
        sizes = [one[name] for one in sets.own]
        if kind == "equal":
            # In one order for all dims: first what most of them can have.
            choices[name] = sorted(
                new, key=lambda size: (-sum(size in each for _, each in ranges.values()), hash((size, *shared)))
            )
            continue
        found = [size for size in new if size not in sizes]
        random.shuffle(found)
        # Where the step is 1, the divisor that all own sizes share is lost; 2 is a prime, but even.
        choices[name] = sorted(found, key=lambda size: (gcd(size // step, *sizes) > 1, not _is_prime(size // step)))
    return choices


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def step(task: Task, name: str) -> int:
    """What divides the sizes of a dim: the divisor of all own ones, but no more than is fine."""
    return gcd(*(sizes[name] for sizes in task.size_sets()), _FINEST)


def completed(task: Task, given: Mapping[str, int]) -> SizeSet | None:
    """A set with given sizes of some dims, and small ones of the others; None where they break a common relation."""
    # The given ones first: what they rule out is not tried with all sizes of the others.
    sets = _Sets(task, sorted(varying(task), key=lambda name: name not in given))
    own = sorted({sizes[name] for sizes in sets.own for name in sets.names})
    # What sums, products, order and divisors may ask for.
    near = {new for t in given.values() for o in own for new in (t, t + o, t - o, t * o, t // o, -(-t // o) * o)}
    choices = {}
    for name in sets.names:
        least, kept = step(task, name), [sizes[name] for sizes in sets.own]
        found = [given[name]] if name in given else [*kept, *sorted(near | {least * n for n in range(1, _CHOICES)})]
        choices[name] = [size for size in dict.fromkeys(found) if size > 0 and size % least == 0]
    return sets.first(choices, _Kept(), _STEPS // 5)
