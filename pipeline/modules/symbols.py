"""Numbers of a graph as expressions of dims: what they are at each set of sizes tells how they are made."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, combinations_with_replacement

from pipeline.base.errors import UsageError

_MOST_FACTORS = 4
_REAL = {"{}": 1.0, "({})**-0.5": -0.5, "({})**0.5": 0.5, "1 / ({})": -1.0}
"""Forms of numbers that are powers of a product of sizes."""
_PRIMES = (5, 7, 3, 11, 13, 17, 19, 23, 29, 31)
_LARGE = 64


class Symbols:
    """The dims of a module, with their sizes at each set."""

    def __init__(self, sets: Sequence[Mapping[str, int]]) -> None:
        self.sets = sets
        factors = [each for n in range(1, _MOST_FACTORS + 1) for each in combinations_with_replacement(sets[0], n)]
        self._products = {
            "*".join(names): tuple(math.prod(sizes[name] for name in names) for sizes in sets) for names in factors
        }

    def shape(self, shapes: Sequence[Sequence[int]]) -> tuple[str, ...]:
        """The dims of a tensor that has these shapes."""
        return tuple(map(self.dim, zip(*shapes, strict=True)))

    def dim(self, sizes: Sequence[int]) -> str:
        """The dim that has these sizes, such as `H*K` or `K//2`: the simplest there is.

        Raises:
            UsageError: No sum, product or quotient of dims has them.
        """
        found = str(sizes[0]) if len({*sizes}) == 1 else next(self._expressions(tuple(sizes)), None)
        if found is None:
            raise UsageError(f"no product or sum of the dims {', '.join(self.sets[0])} is {sizes} at {self.sets}")
        return found

    def number(self, values: Sequence[float]) -> str:
        """Code for a number, such as `1e-05`, `N_value - 1` or `(K_value)**-0.5`.

        Raises:
            UsageError: It differs between the sets, and no expression of dims is it.
        """
        if len({*map(repr, values)}) == 1:
            return repr(values[0]).replace("inf", "torch.inf")
        if all(isinstance(value, int) and value > 0 for value in values):
            return coded(self.dim([int(value) for value in values]))
        for text, sizes in self._products.items():
            for form, power in _REAL.items():
                if all(math.isclose(size**power, value) for size, value in zip(sizes, values, strict=True)):
                    return form.format(coded(text))
        raise UsageError(f"no expression of the dims {', '.join(self.sets[0])} is {values} at {self.sets}")

    def _expressions(self, sizes: tuple[int, ...]) -> Iterator[str]:
        products = self._products.items()
        yield from (text for text, product in products if product == sizes)
        for text, product in products:
            if len({size / other for size, other in zip(sizes, product, strict=True)}) == 1:
                size, other = sizes[0], product[0]
                if size % other == 0 or other % size == 0:
                    yield f"{size // other}*{text}" if size % other == 0 else f"{text}//{other // size}"
        for text, product in products:
            left = {size - other for size, other in zip(sizes, product, strict=True)}
            if len(left) == 1:
                yield f"{text} {'+' if max(left) > 0 else '-'} {abs(max(left))}"
        for (text, first), (more, second) in combinations(products, 2):
            if tuple(map(sum, zip(first, second, strict=True))) == sizes:
                yield f"{text} + {more}"


def coded(dim: str) -> str:
    """A dim as code: `H*K` as `H_value*K_value`."""
    return re.sub(r"[A-Za-z_]\w*", lambda name: f"{name[0]}_value", dim)


def apart(sets: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """One more set of sizes, at which products are unlike that are equal by chance at the given ones."""
    found = dict[str, int]()
    for name in sets[0]:
        own = {sizes[name] for sizes in sets}
        step = math.gcd(*own)
        several = range(1, len(own) + 2) if step >= _LARGE else _PRIMES
        free = [step * each for each in several if step * each not in {*own, *found.values()}]
        found[name] = free[0] if len(own) > 1 and free else max(own)
    return found
