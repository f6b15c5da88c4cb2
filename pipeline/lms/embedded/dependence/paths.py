"""Paths: by which operations a value depends on what it is made of.

A flow is the set of paths that lead to one value. A path starts at a leaf (an input, a weight, a position; in a
function also an argument or a state) and knows which operations it passes, what it is multiplied by, and whether
the value grows with the leaf. Neither order nor number of operations is part of it, nor any shape: loops have finite
sets of paths, and code that computes the same in another way has mostly the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache, reduce
from operator import or_
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
SUM, MINUS, LARGEST, EXP, OVER, CHOICE, LOG, ROOT, ABS = (TIMES << place for place in range(1, 10))
"""The tags of a reduction, of what is taken off, of the larger one of several, of an exponential, of an inverse, of an
index that selects, of a logarithm, of a root and of an absolute value."""
COMPARED, ORDERED, ROUNDED, LIMITED, LOOPED = (TIMES << place for place in range(10, 15))
"""The tags of a comparison, of sorting, of rounding, of a limit, and of a loop that multiplies a value by earlier ones
of its own."""
_DISCRETE = CHOICE | COMPARED | ORDERED | ROUNDED
_DISCRETELY = _DISCRETE | ABS | LIMITED | SUM | LARGEST
"""What may compute something discrete, which is written in many ways: a rank by comparing and counting, the nearest of
several values by the least distance."""
_LINEAR = TIMES | SUM
_POWERS = OVER | ROOT | ABS
"""These can be exchanged with each other, and with products."""
OPERATIONS = 40
"""The number of bits for operations; behind them, there is one for each two that follow each other on a path."""
_OPERATION_BITS = (1 << OPERATIONS) - 1
_NONLINEAR = _OPERATION_BITS & ~(_LINEAR | _POWERS | MINUS | CHOICE | LOOPED | SIGNS)
ANYTHING = (1 << OPERATIONS * (OPERATIONS + 1)) - 1
"""The tags of a path of which nothing is known."""
_MOST_PATHS = 40
"""A flow of more paths keeps one for each leaf, which passes all the operations."""


class Path(NamedTuple):
    """One way to depend on a leaf.

    Attributes:
        leaf: Where it starts.
        tags: The operations that it passes, and its sign, as bits.
        partners: The leaves that what it passes is multiplied by, as bits.
        first: Those of them that it is multiplied by before any operation but sums, differences, products and
            selections, whose order does not matter; inverses are left out, as they may as well come later.
    """

    leaf: int
    tags: int
    partners: int
    first: int


Flow: TypeAlias = frozenset[Path]
NOTHING: Flow = frozenset()
"""The flow of a constant."""


class _Zero(frozenset[Path]):
    """A type of its own, so that zero is not the object `NOTHING`."""


ZERO: Flow = _Zero()
"""The flow of the constant zero, by which a product is zero, too."""


def leaf(number: int) -> Flow:
    """The flow of a leaf itself."""
    return frozenset((Path(number, 0, 0, 0),))


def leaves(flow: Flow) -> int:
    """The leaves of a flow, as bits."""
    return reduce(or_, (1 << path.leaf for path in flow), 0)


def factors(flow: Flow) -> int:
    """Those of a flow's leaves that are more than inverses and positions, as bits."""
    return reduce(or_, (1 << path.leaf for path in flow if not path.tags & OVER), 0) & ~POSITION


def union(*flows: Flow) -> Flow:
    """What depends on all of these."""
    return bounded(frozenset().union(*flows)) if len(flows) != 1 else flows[0]


def tagged(flow: Flow, tags: int, partners: int = 0, first: int | None = None) -> Flow:
    """The flow after an operation, or several; `FALLS` in `tags` turns the sign of all paths."""
    known = partners & ~POSITION if first is None else first
    return bounded(continued(path, tags, partners, known) for path in flow)


def continued(path: Path, tags: int, partners: int, first: int) -> Path:
    """A path that goes on by these."""
    if nonlinear(path.tags):
        first = 0
    return Path(path.leaf, joined(path.tags, tags), path.partners | partners, path.first | first)


@lru_cache(maxsize=1 << 16)
def joined(one: int, other: int) -> int:
    """The tags of a path that continues by another."""
    tags = (one | other) & ~FALLS
    tags |= orders(one, other)
    return tags if tags & UNSIGNED else tags | (one ^ other) & FALLS


def orders(before: int, after: int) -> int:
    """The bits of every operation before another one; sums, products and powers are exchanged too freely to count."""
    earlier, later = (
        [n for n in range(OPERATIONS) if (tags & ~_LINEAR & ~SIGNS & ~LOOPED) >> n & 1] for tags in (before, after)
    )
    pairs = ((i, j) for i in earlier for j in later if i != j and not _POWERS >> i & _POWERS >> j & 1)
    return reduce(or_, (1 << OPERATIONS * (i + 1) + j for i, j in pairs), 0)


def nonlinear(tags: int) -> int:
    """The bits of the operations whose order with products matters."""
    return tags & _NONLINEAR


def cancels(tags: int) -> bool:
    """Whether a path takes a largest element off before an exponential, which changes no ratio of exponentials."""
    return tags & _SHIFT == _SHIFT


def among(operations: int) -> int:
    """The bits of these operations and of their orders."""
    return operations & _OPERATION_BITS | orders(operations, operations)


_SHIFT = orders(LARGEST, MINUS) | orders(MINUS, EXP)
_SHIFTED = orders(LARGEST, MINUS)
_BEHIND_LARGEST = orders(LARGEST, _NONLINEAR & ~LARGEST)
_LOG_SUM_EXP = orders(EXP, LOG)
_RATIO = EXP | OVER
_EXP_OF_LOG = orders(EXP, LOG) | orders(LOG, EXP)
"""Of a path to a ratio of exponentials that is the exponential of a difference of logarithms."""
_OF_LOG = LOG | orders(LOG, _OPERATION_BITS) | orders(_OPERATION_BITS, LOG)


@lru_cache(maxsize=1 << 12)
def permitted(tags: int) -> int:
    """The tags of all paths that may be part of one with these, which computes the same in another way."""
    free = tags | SIGNS | LOOPED
    if tags & _DISCRETE:
        own = tags & _OPERATION_BITS
        free |= _DISCRETELY | orders(_DISCRETELY, own | _DISCRETELY) | orders(own, _DISCRETELY)
    if tags & _RATIO == _RATIO:
        free |= LOG | _EXP_OF_LOG
    return free


@lru_cache(maxsize=1 << 12)
def simplified(tags: int) -> int:
    """The tags without what differs between ways to write the same: something discrete is as good as a choice."""
    tags &= ~LOOPED
    if tags & _DISCRETE:
        touched = orders(_DISCRETELY, _OPERATION_BITS) | orders(_OPERATION_BITS, _DISCRETELY)
        tags = tags & ~_DISCRETELY & ~touched | tags & SUM | CHOICE | UNSIGNED
    if tags & _EXP_OF_LOG == _EXP_OF_LOG:
        tags = tags & ~_OF_LOG | OVER
    return tags


def is_top(tags: int) -> bool:
    """Whether a path ends with a largest element, with nothing behind it whose order with products matters."""
    return tags & LARGEST != 0 and not tags & _BEHIND_LARGEST


def is_largest(flow: Flow) -> bool:
    """Whether a value is the largest of several, and nothing but linear operations followed."""
    return bool(flow) and all(is_top(path.tags) and not path.tags & _SHIFTED for path in flow)


def unshifted(flow: Flow) -> Flow:
    """An exponent that is shifted by a largest element without that element.

    Without it, sums of exponentials that are rescaled whenever their largest one changes are the same as plain ones.
    """
    if not any(path.tags & _SHIFTED and is_top(path.tags) for path in flow):
        return flow
    return frozenset(path for path in flow if not is_top(path.tags))


def logarithm(flow: Flow, state: int) -> Flow:
    """The logarithm of a value; the exponential of a state (a leaf from `state` on) in it is again the state."""
    found = []
    for path in flow:
        plain = path.leaf >= state and nonlinear(path.tags) == EXP
        found.append(path._replace(tags=path.tags & ~EXP) if plain else continued(path, LOG, 0, 0))
    return bounded(found)


def product(one: Flow, other: Flow) -> Flow:
    """The product of two values; a constant factor leaves no trace."""
    if one is ZERO or other is ZERO:
        return ZERO
    mine, theirs = leaves(one), leaves(other)
    if not mine or not theirs:
        return union(one, other)
    both = TIMES | UNSIGNED if one is other else TIMES
    return union(tagged(one, both, theirs, factors(other)), tagged(other, both, mine, factors(one)))


def replaced(flow: Flow, flows: Mapping[int, Flow], *, looped: bool = False) -> Flow:
    """The flow with each of these leaves replaced by what leads to it; nothing is left of a product with `ZERO`.

    If it is `looped`, these are states, and what they multiply by earlier values of its own is marked.
    """
    known = [(1 << number, leaves(source), factors(source)) for number, source in flows.items()]
    every = reduce(or_, (bit for bit, _, _ in known), 0)
    found = set()
    gone = reduce(or_, (1 << number for number, source in flows.items() if source is ZERO), 0)
    for path in flow:
        partners, first = path.partners, path.first
        if partners & gone:
            continue
        for bit, bits, lead in known if partners & every else ():
            if partners & bit:
                partners = partners & ~bit | bits
                first = first & ~bit | lead if first & bit else first
        # What turns out to be multiplied by a constant is not a product.
        tags = path.tags if partners or not path.partners else path.tags & ~TIMES
        if looped and partners & ~path.partners & 1 << path.leaf:
            tags |= LOOPED
        if path.leaf not in flows:
            found.add(Path(path.leaf, tags, partners, first))
            continue
        for source in flows[path.leaf]:
            again = looped and partners & ~source.partners & 1 << source.leaf
            found.add(continued(source, tags | LOOPED if again else tags, partners, first))
    return bounded(found)


def bounded(paths: Iterable[Path]) -> Flow:
    """A flow of these paths without those that cancel, or a coarser one if there are too many.

    The largest element that is added to the logarithm of a sum of exponentials only undoes their shift.
    """
    flow = frozenset(path for path in paths if not cancels(path.tags))
    logs = {(path.leaf, path.tags & SIGNS) for path in flow if path.tags & _LOG_SUM_EXP}
    if logs:
        flow = frozenset(path for path in flow if (path.leaf, path.tags & SIGNS) not in logs or not is_top(path.tags))
    return flow if len(flow) <= _MOST_PATHS else frozenset(coarse(flow).values())


def coarse(flow: Iterable[Path]) -> dict[int, Path]:
    """For each leaf, one path that passes all operations, without a sign."""
    found: dict[int, Path] = {}
    for path in flow:
        known = found.get(path.leaf, Path(path.leaf, UNSIGNED, 0, 0))
        tags = (known.tags | path.tags) & ~FALLS
        tags = tags & ~_SHIFT if cancels(tags) else tags
        found[path.leaf] = Path(path.leaf, tags, known.partners | path.partners, known.first | path.first)
    return found
