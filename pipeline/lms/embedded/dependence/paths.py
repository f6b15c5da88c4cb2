"""Paths: by which operations a value depends on what it is made of.

A flow is the set of paths that lead to one value. A path starts at a leaf (an input, a weight, a position; in a
function also an argument or a state) and knows which operations it passes, what it is multiplied by, and whether
the value grows with the leaf. Neither order nor number of operations is part of it, nor any shape: loops have finite
sets of paths, and code that computes the same in another way has mostly the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache, partial, reduce
from operator import and_, or_
from typing import NamedTuple, TypeAlias

FALLS = 1
"""The tag of a path along which the value falls as its leaf grows."""
UNSIGNED = 2
"""The tag of a path along which the value may do either."""
SIGNS = FALLS | UNSIGNED
TIMES = 4
"""The tag of a path that is multiplied by something that is not constant."""
POSITION = 1
"""The leaf 0, as bits: a position, which is no more than a mask as a partner."""
CONSTANT = 96
CONSTANTS = 16
"""The first leaf that stands for a constant factor, behind those of inputs and weights, and how many there are. They
are partners only."""
_CONSTANTS = (1 << CONSTANT + CONSTANTS) - (1 << CONSTANT)
_UNORDERED = POSITION | _CONSTANTS
"""Partners of which none is the first."""
SUM, MINUS, LARGEST, EXP, LOG, OVER, ROOT, ABS = (TIMES << place for place in range(1, 9))
"""The tags of a reduction, of what is taken off, of the larger one of several, of an exponential, of a logarithm, of
what divides, of a root, and of an absolute value."""
_POWERS = [place.bit_length() - 1 for place in (OVER, ROOT, ABS)]
"""The bits of operations that may change places: those of a quotient are the quotient of those."""
_LINEAR = TIMES | SUM
OPERATIONS = 40
"""The number of bits for operations; behind them, there is one for each two that follow each other on a path."""
_OPERATION_BITS = (1 << OPERATIONS) - 1
_MOST_PATHS = 40
"""A flow of more paths keeps one for each leaf, which passes all the operations."""


class Path(NamedTuple):
    """One way to depend on a leaf.

    Attributes:
        leaf: Where it starts.
        tags: The operations that it passes, and its sign, as bits.
        partners: The leaves that what it passes is multiplied by, as bits, and the constant factors.
        first: Those of them that it is multiplied by first.
    """

    leaf: int
    tags: int
    partners: int
    first: int


_Parts: TypeAlias = tuple[int, int, int, int]
"""A path as a plain tuple, which takes less time to make."""
_path = partial(tuple.__new__, Path)
"""A plain tuple as a path, in less time than `Path._make` takes."""
Flow: TypeAlias = frozenset[Path]
NOTHING: Flow = frozenset()
"""The flow of a constant."""


def leaf(number: int) -> Flow:
    """The flow of a leaf itself."""
    return frozenset((Path(number, 0, 0, 0),))


def leaves(flow: Flow) -> int:
    """The leaves of a flow, as bits."""
    return reduce(or_, (1 << path.leaf for path in flow), 0)


def factor(flow: Flow) -> int:
    """What a product with a value multiplies by, as bits: its leaves, and the constant factors of all its paths."""
    return leaves(flow) | (reduce(and_, (path.partners for path in flow)) & _CONSTANTS if flow else 0)


def scaled(flow: Flow, constant: int) -> Flow:
    """The product with a constant factor, given as bits."""
    return tagged(flow, 0, constant) if constant else flow


def maximal(flow: Flow) -> Flow:
    """The flow without the paths that only differ from another one in being multiplied by less.

    The first steps of a recurrence lack factors that later ones have.
    """
    found: dict[tuple[int, int], list[Path]] = {}
    for path in flow:
        found.setdefault(path[:2], []).append(path)
    if len(found) == len(flow):
        return flow
    return frozenset(
        path for alike in found.values() for path in alike
        if not any(path.partners != other.partners and not path.partners & ~other.partners for other in alike)
    )  # fmt: skip


def is_scaled(path: Path) -> bool:
    """Whether a path is multiplied by a constant factor."""
    return bool(path.partners & _CONSTANTS)


def unscaled(flow: Flow) -> Flow:
    """The flow without constant factors."""
    if not any(map(is_scaled, flow)):
        return flow
    return frozenset([path._replace(partners=path.partners & ~_CONSTANTS) for path in flow])


def multiplied(partners: int) -> bool:
    """Whether some partners are not constants."""
    return bool(partners & ~_CONSTANTS)


def union(*flows: Flow) -> Flow:
    """What depends on all of these."""
    return bounded(frozenset().union(*flows)) if len(flows) != 1 else flows[0]


def tagged(flow: Flow, tags: int, partners: int = 0) -> Flow:
    """The flow after an operation, or several; `FALLS` in `tags` turns the sign of all paths."""
    return bounded(continued(path, tags, partners, partners & ~_UNORDERED) for path in flow)


def continued(path: Path, tags: int, partners: int, first: int) -> Path:
    """A path continued by these."""
    return Path(path.leaf, joined(path.tags, tags), path.partners | partners, path.first or first)


@lru_cache(maxsize=1 << 16)
def joined(one: int, other: int) -> int:
    """The tags of a path that continues by another.

    The exponential of a logarithm is neither: what is taken off between them divides.
    """
    turned = (one ^ other) & FALLS
    if one & LOG and other & EXP and not (_follow(one, LOG) | _precede(other, EXP)) & _BETWEEN:
        divides = (_follow(one, LOG) | _precede(other, EXP)) & MINUS
        one, other = without(one, LOG | divides), without(other, EXP | divides)
        one = joined(one, OVER) if divides else one
    tags = (one | other) & ~FALLS
    tags |= orders(one, other)
    return tags if tags & UNSIGNED else tags | turned


def _follow(tags: int, operation: int) -> int:
    """The operations that come after this one."""
    return tags >> OPERATIONS * operation.bit_length() & _OPERATION_BITS


def _precede(tags: int, operation: int) -> int:
    """The operations that come before this one."""
    place = operation.bit_length() - 1
    found = (1 << n for n in range(OPERATIONS) if tags >> OPERATIONS * (n + 1) + place & 1)
    return reduce(or_, found, 0)


@lru_cache(maxsize=1 << 16)
def without(tags: int, operations: int) -> int:
    """The tags without these operations, or signs."""
    return tags & (SIGNS | TIMES) & ~operations | among(tags & _OPERATION_BITS & ~operations & ~SIGNS) & tags


def orders(before: int, after: int) -> int:
    """The bits of every operation before another one; sums, products and powers are exchanged too freely to count."""
    earlier, later = ([n for n in range(OPERATIONS) if (tags & ~_LINEAR & ~SIGNS) >> n & 1] for tags in (before, after))
    pairs = ((i, j) for i in earlier for j in later if i != j and not (i in _POWERS and j in _POWERS))
    return reduce(or_, (1 << OPERATIONS * (i + 1) + j for i, j in pairs), 0)


def cancels(tags: int) -> bool:
    """Whether a path takes a largest element off before an exponential, which changes no ratio of exponentials."""
    return tags & _SHIFT == _SHIFT


def among(operations: int) -> int:
    """The bits of these operations and of their orders."""
    return operations & _OPERATION_BITS | orders(operations, operations)


_SHIFT = orders(LARGEST, MINUS) | orders(MINUS, EXP) | orders(LARGEST, EXP)
_BETWEEN = _OPERATION_BITS & ~(MINUS | LARGEST | EXP | LOG)
"""Operations between a logarithm and an exponential that keep them apart."""


def exponential(flow: Flow) -> Flow:
    """The exponential of a sum is a product, and so multiplied by the exponentials of all that the sum consists of."""
    kept = bounded(continued(path, EXP, 0, 0) for path in flow)
    partners = leaves(kept)
    if partners & ~POSITION == 0:
        return kept
    return bounded(continued(path, TIMES, partners, 0) for path in kept)


def product(*flows: Flow) -> Flow:
    """The product of some values, in no order; a constant leaves no trace, nor do masks by position together."""
    parts = [(flow, bits) for flow in flows if (bits := factor(flow))]
    if len(parts) < 2 or all(bits & ~_CONSTANTS == POSITION for _, bits in parts):
        return union(NOTHING, *flows)
    found = []
    for place, (flow, _) in enumerate(parts):
        others = parts[:place] + parts[place + 1 :]
        both = TIMES | UNSIGNED * any(flow is other for other, _ in others)
        found.append(tagged(flow, both, reduce(or_, (bits for _, bits in others))))
    return union(*found)


def quotient(one: Flow, inverse: Flow) -> Flow:
    """The product of a value and an inverse, which may as well come later: it is nothing's first partner."""
    mine, theirs = factor(one), factor(inverse)
    if not mine or not theirs:
        return union(one, inverse)
    parts = ((one, theirs), (inverse, mine))
    return bounded(continued(path, TIMES, bits, 0) for flow, bits in parts for path in flow)


def replaced(flow: Flow, flows: Mapping[int, Flow]) -> Flow:
    """The flow with each of these leaves replaced by what leads to it."""
    known = [(1 << number, factor(source)) for number, source in flows.items()]
    every = reduce(or_, (own for own, _ in known), 0)
    found: list[_Parts] = []
    for path in flow:
        number, tags, partners, first = path
        if partners & every:
            for own, bits in known:
                if partners & own:
                    partners = partners & ~own | bits
                    first = first & ~own | bits & ~_UNORDERED if first & own else first
            # What turns out to be multiplied by a constant is not a product.
            tags = tags if multiplied(partners) else tags & ~TIMES
        if number in flows:
            found += [
                (start, joined(before, tags), others | partners, other_first or first)
                for start, before, others, other_first in flows[number]
            ]
        else:
            found.append((number, tags, partners, first))
    return bounded(found)


def bounded(paths: Iterable[_Parts]) -> Flow:
    """A flow of these paths without those that cancel, or a coarser one if there are too many."""
    kept = {path for path in paths if path[1] & _SHIFT != _SHIFT}
    if len(kept) > _MOST_PATHS:
        kept = set(_unsigned(kept))
    return frozenset(map(_path, kept)) if len(kept) <= _MOST_PATHS else frozenset(coarse(kept).values())


def _unsigned(flow: Iterable[_Parts]) -> list[_Parts]:
    """One path, without a sign, for all that pass the same operations from the same leaf."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for start, tags, partners, first in flow:
        key = (start, tags & ~FALLS | UNSIGNED)
        others, other_first = found.get(key, (0, 0))
        found[key] = (others | partners, other_first | first)
    return [(*key, *met) for key, met in found.items()]


def coarse(flow: Iterable[_Parts]) -> dict[int, Path]:
    """For each leaf, one path that passes all operations, without a sign."""
    found: dict[int, _Parts] = {}
    for start, tags, partners, first in flow:
        _, own, others, other_first = found.get(start, (start, UNSIGNED, 0, 0))
        every = (own | tags) & ~FALLS
        found[start] = (start, every & ~_SHIFT if cancels(every) else every, others | partners, other_first | first)
    return {start: _path(parts) for start, parts in found.items()}
