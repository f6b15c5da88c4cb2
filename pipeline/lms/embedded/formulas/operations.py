"""What operations make of the residues of formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.lms.embedded.formulas.residues import (
    LEAST,
    LOG,
    ORDER,
    PRIME,
    SIGNED,
    STEP,
    WORD,
    Residues,
    are_counts,
    drawn,
    exponent,
    exponential,
    in_order,
    logarithm,
    mixed,
    power,
    powers,
    seed,
    signed,
)

_Both: TypeAlias = tuple[Residues, Residues]
"""First and second residues, each of shape (formulas, sets), or (formulas, terms, sets) for operands along a dim."""
_MODULI = np.array([[PRIME], [ORDER]], WORD)
_P, _Q = WORD(PRIME), WORD(ORDER)
_SMALL_SQUARE = WORD(1 << 12)
"""Squares of differences below this are those of two numbers."""
IN_ORDER, IN_NO_ORDER = "all ", "any "
"""How the names of calls along a dim begin that depend on the order of their terms, or do not."""
GIVEN = frozenset(("constant", "symbol"))
"""What is not computed."""
SAME = "same"
"""Gives its operand."""
WHERE = "where"
"""The second operand if the first one is one, and the third one if it is zero."""
GUARDED = "guarded"
"""The first operand, which the second one guards against overflow: that one where guards leave a trace."""
_EXTREMES = "largest", "smallest"
VALUE, PLACE = IN_NO_ORDER + "value ", IN_ORDER + "place "
"""How the names of calls begin that give a term by its rank, or its place; the largest one has rank 0, the least -1."""
ASCENDING = " ascending"
"""How the names of those end for which the last one of equal terms has the higher rank, not the first one."""
FIRST_PLACE = PLACE + "0"
ABOVE = "above"
"""Whether the first operand is larger than the second one."""
COMPARED = frozenset((ABOVE, "sign", *_EXTREMES))
"""Operations that compare numbers, beside ranks and places."""
POWERS = frozenset(("inverse", "log", "sign", "sqrt", ABOVE))
"""Operations that raise residues to large powers."""


def computed(op: str, parts: Sequence[Residues], world: int, *, logs: bool) -> Residues:
    """What an operation gives of operands of shape (formulas, 2, sets), or (formulas, terms, 2, sets) along a dim.

    `logs` says whether there are any logarithms.
    """
    if op == SAME:
        return parts[0]
    if op == GUARDED:
        return parts[world > 0]
    if not logs and op in _LINEAR:
        return _LINEAR[op](parts)
    p, q = [part[..., 0, :] for part in parts], [part[..., 1, :] for part in parts]
    with np.errstate(over="ignore"):
        return np.stack(_apart(op, p, q, world), 1)


_LINEAR: dict[str, Callable[[Sequence[Residues]], Residues]] = {
    "add": lambda parts: (parts[0] + parts[1]) % _MODULI,
    "subtract": lambda parts: (parts[0] + (_MODULI - parts[1])) % _MODULI,
    "multiply": lambda parts: parts[0] * parts[1] % _MODULI,
    "sum": lambda parts: parts[0].sum(1) % _MODULI,
}
"""Operations without logarithms, on both residues at once."""


def _apart(op: str, p: Sequence[Residues], q: Sequence[Residues], world: int) -> _Both:
    if op in ("add", "subtract"):
        return _sum(p, q, turned=op == "subtract")
    if world not in SIGNED and (op in COMPARED or op.startswith((VALUE, PLACE))):
        return _ordered(op, p, q, world)
    if op in _OPERATIONS:
        return _OPERATIONS[op](p, q)
    if op in _EXTREMES:
        return _extreme(p, largest=op == _EXTREMES[0])
    found = _drawn(op, p)
    if not op.startswith((VALUE, PLACE)) or not (counts := are_counts(p[0]).all(1)).any():
        return found
    one, other = (np.where(counts, *pair) for pair in zip(_ordered(op, p[:1], q[:1], world), found, strict=True))
    return one, other


def _drawn(op: str, p: Sequence[Residues]) -> _Both:
    """What stands for an operation of which nothing is known."""
    if op.startswith(IN_NO_ORDER):
        return drawn(mixed(seed(op) + mixed(p[0] + STEP).sum(1)))
    terms = [p[0][:, place] for place in range(p[0].shape[1])] if op.startswith(IN_ORDER) else p
    word = seed(op.removesuffix(ASCENDING))
    for one in terms:
        word = mixed(word + mixed(one) + STEP)
    return drawn(word)


def _ordered(op: str, p: Sequence[Residues], q: Sequence[Residues], world: int) -> _Both:
    """As `_apart`, where residues are compared as numbers."""
    if op == ABOVE:
        found = (in_order(p[0], world) > in_order(p[1], world)).astype(WORD)
        return found, found
    if op == "sign":
        sign = np.sign(in_order(p[0], world))
        return (sign % PRIME).astype(WORD), (sign % ORDER).astype(WORD)
    terms, others = (part[0] if part[0].ndim > 2 else np.stack(np.broadcast_arrays(*part), 1) for part in (p, q))
    numbers = in_order(p[-1] if p[-1].ndim > 2 else terms, world)
    place = _ranked(numbers, op)
    if op.startswith(PLACE):
        return place.astype(WORD), place.astype(WORD)
    one, other = (np.take_along_axis(part, place[:, None], 1)[:, 0] for part in (terms, others))
    # The largest one is taken off exponents so that they do not overflow, which leaves no trace in the first world.
    return one, other if world or op not in _EXTREMES else np.zeros_like(other)


def _ranked(numbers: NDArray[np.int64], op: str) -> NDArray[np.int64]:
    """The places along the second dim that an operation chooses by rank."""
    last = numbers.shape[1] - 1
    rank = _EXTREMES.index(op) * last if op in _EXTREMES else int(op.removesuffix(ASCENDING).rpartition(" ")[2])
    rank = last if rank < 0 else rank
    if op.endswith(ASCENDING):
        return np.argsort(numbers, axis=1, kind="stable")[:, last - rank]
    return np.argsort(-numbers, axis=1, kind="stable")[:, rank]


def _has_log(second: Residues) -> np.bool_:
    return (second & LOG).any()


def _sum(p: Sequence[Residues], q: Sequence[Residues], *, turned: bool) -> _Both:
    """A sum, or a difference."""
    found = (p[0] + (_P - p[1] if turned else p[1])) % _P
    if not (_has_log(q[0]) or _has_log(q[1])):
        return found, (q[0] + (_Q - q[1] if turned else q[1])) % _Q
    return _with_log(found, _raised(q[0], q[1], turned=turned))


def _with_log(found: Residues, other: Residues) -> _Both:
    """Residues of which the first one is that of a logarithm where the second one is an exponential."""
    logs = other & LOG != 0
    values = other[logs] & ~LOG
    found[logs] = np.where(values == 0, WORD(LEAST), logarithm(values))
    return found, other


def _raised(one: Residues, other: Residues, *, turned: bool) -> Residues:
    """The exponential of a sum or a difference of which a term has a logarithm, marked as one."""
    former, latter = (
        np.where(part & LOG, part & ~LOG, exponential(np.where(part & LOG, WORD(0), part))) for part in (one, other)
    )
    latter = power(latter, PRIME - 2) if turned else latter
    none = (one | other) & LOG == 0
    own = (one + (_Q - other if turned else other)) % _Q
    return np.where(none, own, former * latter % _P | LOG)


def _total(p: Sequence[Residues], q: Sequence[Residues]) -> _Both:
    found, other = p[0].sum(1) % _P, q[0][:, 0]
    if not _has_log(q[0]):
        return found, q[0].sum(1) % _Q
    for place in range(1, q[0].shape[1]):
        other = _raised(other, q[0][:, place], turned=False)
    return _with_log(found, other)


def _product(p: Sequence[Residues], q: Sequence[Residues]) -> _Both:
    found = p[0] * p[1] % _P
    if not (_has_log(q[0]) or _has_log(q[1])):
        return found, q[0] * q[1] % _Q
    logs = [part & LOG != 0 for part in q]
    own = [np.where(log, exponent(one), part) for log, one, part in zip(logs, p, q, strict=True)]
    other = own[0] * own[1] % _Q
    for log, factor in ((0, 1), (1, 0)):
        # What is multiplied by zero, as by a mask, is no logarithm any more.
        some = logs[log] & ~logs[factor] & ((p[factor] != 0) | (q[factor] != 0))
        other[some] = _to_the(q[log][some] & ~LOG, q[factor][some]) | LOG
    return _with_log(found, other)


def _to_the(values: Residues, exponents: Residues) -> Residues:
    """Powers of what logarithms are taken of, which is positive, so that any root has one value."""
    found = values.copy()
    turned, others = exponents == _Q - WORD(1), (exponents != 1) & (exponents != _Q - WORD(1))
    if turned.any():
        found[turned] = power(values[turned], PRIME - 2)
    if others.any():
        found[others] = powers(_positive(values[others]), exponents[others])
    return found


def _positive(values: Residues) -> Residues:
    """Residues, or their opposites, that are squares."""
    return np.where(power(values, ORDER) == 1, values, (_P - values) % _P)


def _product_along(p: Sequence[Residues], q: Sequence[Residues]) -> _Both:
    terms = [(p[0][:, place], q[0][:, place]) for place in range(p[0].shape[1])]
    return reduce(lambda one, other: _product((one[0], other[0]), (one[1], other[1])), terms)


def _inverse(p: Sequence[Residues], q: Sequence[Residues]) -> _Both:
    return power(p[0], PRIME - 2), power(_exponent(p[0], q[0]), ORDER - 2, ORDER)


def _exponent(one: Residues, other: Residues) -> Residues:
    """The second residues, also of those with logarithms."""
    return np.where(other & LOG, exponent(one), other) if _has_log(other) else other


def _log(p: Sequence[Residues], _: Sequence[Residues]) -> _Both:
    return logarithm(p[0]), p[0] | LOG


def _exp(_: Sequence[Residues], q: Sequence[Residues]) -> _Both:
    found = exponential(q[0] & ~LOG)
    found = np.where(q[0] & LOG, q[0] & ~LOG, found) if _has_log(q[0]) else found
    return found, exponent(found)


def _is_zero(p: Sequence[Residues], _: Sequence[Residues]) -> _Both:
    """Whether the square of a difference is zero, which is known of numbers only."""
    found, other = drawn(mixed(p[0] + seed("eq")))
    number, one = p[0] < _SMALL_SQUARE, (p[0] == 0).astype(WORD)
    return np.where(number, one, found), np.where(number, one, other)


def _sign(p: Sequence[Residues], _: Sequence[Residues]) -> _Both:
    found = power(p[0], ORDER)
    return found, np.where(found == WORD(PRIME - 1), WORD(ORDER - 1), found)


def _above(p: Sequence[Residues], _: Sequence[Residues]) -> _Both:
    """Half the sum of the sign of a difference and of its square: one, or zero."""
    found = (power((p[0] + (_P - p[1])) % _P, ORDER) == 1).astype(WORD)
    return found, found


def _where(p: Sequence[Residues], q: Sequence[Residues]) -> _Both:
    """One of two values by a number between zero and one: a mixture if it is neither."""
    gap = _sum((p[1], p[2]), (q[1], q[2]), turned=True)
    part = _product((p[0], gap[0]), (q[0], gap[1]))
    found = _sum((p[2], part[0]), (q[2], part[1]), turned=False)
    mixture = zip((p[1], q[1]), (p[2], q[2]), found, strict=True)
    one, other = (np.where(p[0] == 1, yes, np.where(p[0] == 0, no, both)) for yes, no, both in mixture)
    return one, other


def _root(p: Sequence[Residues], q: Sequence[Residues]) -> _Both:
    return power(p[0], (PRIME + 1) // 4), power(_exponent(p[0], q[0]), (ORDER + 1) // 4, ORDER)


def _extreme(p: Sequence[Residues], *, largest: bool) -> _Both:
    """One of some values, the same for the same ones, whatever their order."""
    choose = np.maximum if largest else np.minimum
    each = [signed(part) for part in p]
    number = choose.reduce(each[0], 1) if each[0].ndim == 3 else reduce(choose, each)
    found = (number % PRIME).astype(WORD)
    return found, exponent(found)


_OPERATIONS: dict[str, Callable[[Sequence[Residues], Sequence[Residues]], _Both]] = {
    "sum": _total, "multiply": _product,
    "prod": _product_along, "inverse": _inverse, "log": _log, "exp": _exp, "eq": _is_zero, "sign": _sign,
    "sqrt": _root, ABOVE: _above, WHERE: _where,
}  # fmt: skip
