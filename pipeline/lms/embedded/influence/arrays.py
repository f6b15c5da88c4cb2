"""Arrays of which it is known what each element depends on, and which elements are constants.

An element's sources are a set of bits: positions along the dims of the inputs, or elements of a function's arguments.
Positions, masks and sizes are constants, so that a causal mask, a shift or a window leaves the exact set of sources.
Values that depend on data are never computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.lms.embedded.formulas.operations import WHERE
from pipeline.lms.embedded.formulas.spelling import spelled
from pipeline.lms.embedded.formulas.tape import Formulas, Nodes, Tape

Sources: TypeAlias = NDArray[Any]
"""Bits: 64-bit integers where these suffice, else integers of Python."""
Values: TypeAlias = NDArray[np.float64]

MOST_ELEMENTS = 60_000
ANY = ("any",)
"""What selects elements of which the places are not known."""


class Unread(Exception):
    """The meaning of a piece of code is not known here."""


@dataclass(frozen=True)
class Word:
    """A name of PyTorch: a call that is not made yet, or a type of elements."""

    name: str


@dataclass(frozen=True, eq=False)
class Array:
    """What is known of the elements of a tensor.

    Attributes:
        sources: What each element depends on; no bits for a constant.
        values: The value of each constant that is known, else NaN; of the same shape.
        truth: Whether the elements are truth values, so that an index of them is a mask.
        ragged: If data decide how many elements the first dim has, what selects them, else empty. There are as many as
            there could be then, at the places that they are selected from.
        formulas: What each element is computed by, if that is known.
    """

    sources: Sources
    values: Values
    truth: bool = False
    ragged: tuple[Any, ...] = ()
    formulas: Formulas | None = None

    def __post_init__(self) -> None:
        """NumPy gives numbers where it has no dims left."""
        if np.ndim(self.values) == 0:
            kind = getattr(self.sources, "dtype", object)
            object.__setattr__(self, "sources", np.asarray(self.sources, kind))
            object.__setattr__(self, "values", np.asarray(self.values, np.float64))
        bounded(self.values.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's shape."""
        return self.values.shape

    @property
    def ndim(self) -> int:
        """The number of its dims."""
        return self.values.ndim

    def known(self) -> Values:
        """The values, if all are constants that are known.

        Raises:
            Unread: An element depends on something, or is not known.
        """
        if np.isnan(self.values).any():
            raise Unread("a value that depends on data, where a constant is needed")
        return self.values

    def through(self, move: Callable[[NDArray[Any]], NDArray[Any]]) -> Array:
        """The same elements at other places."""
        if self.ragged:
            return widened(self)._moved(move)
        return self._moved(move)

    def _moved(self, move: Callable[[NDArray[Any]], NDArray[Any]]) -> Array:
        formulas = self.formulas and self.formulas._replace(nodes=np.asarray(move(self.formulas.nodes)))
        return Array(move(self.sources), move(self.values), self.truth, self.ragged, formulas)


def constant(values: Any) -> Array:
    """Constants."""
    given = np.asarray(values)
    bounded(given.shape)
    return Array(np.zeros(given.shape, np.uint64), given.astype(np.float64), given.dtype == np.bool_)


def truths(array: Array) -> Array:
    """The same elements, as truth values."""
    return Array(array.sources, array.values, truth=True, ragged=array.ragged, formulas=array.formulas)


def unknown(sources: Sources, *, ragged: tuple[Any, ...] = ()) -> Array:
    """Elements that are no known constants."""
    bounded(np.shape(sources))
    return Array(sources, np.full(np.shape(sources), np.nan), ragged=ragged)


def widened(array: Array) -> Array:
    """A tensor of which data decide the number of elements, where each may be any of them."""
    every = np.bitwise_or.reduce(array.sources, axis=0, keepdims=True)
    wide = np.broadcast_to(every, array.shape)
    return Array(wide, np.full(array.shape, np.nan), array.truth, ANY if array.ragged else ())


def _aligned(arrays: Sequence[Array]) -> tuple[list[Array], tuple[Any, ...]]:
    """Operands whose elements belong together, and by which mask data select them."""
    masks = {array.ragged for array in arrays if array.ragged}
    if len(masks) < 2:
        return list(arrays), next(iter(masks), ())
    return [widened(array) if array.ragged else array for array in arrays], ANY


def as_array(value: Any) -> Array:
    """An array, a number, or nested lists of these, as an array.

    Raises:
        Unread: It is something else.
    """
    if isinstance(value, Array):
        return value
    if isinstance(value, bool | int | float | np.generic):
        return constant(value if isinstance(value, bool | np.bool_) else float(value))
    if isinstance(value, complex):
        return constant(np.nan)
    if isinstance(value, list | tuple | range):
        bounded((len(value),))
        parts = [as_array(part) for part in value]
        if not parts:
            return constant([])
        return joined_by(np.stack, parts, 0)
    raise Unread("not a tensor")


def joined_by(join: Callable[..., NDArray[Any]], parts: Sequence[Array], axis: int) -> Array:
    """Several arrays as one, by `np.stack` or `np.concatenate`."""
    truth, ragged = all(part.truth for part in parts), any(part.ragged for part in parts)
    if ragged:
        parts = [widened(part) if part.ragged else part for part in parts]
    sources, values = [part.sources for part in parts], [part.values for part in parts]
    tape = tape_of(*parts)
    nodes = [nodes_of(part, tape) for part in parts] if tape and not ragged else [None]
    formulas = None if tape is None or any(one is None for one in nodes) else Formulas(tape, join(nodes, axis=axis))
    return Array(join(sources, axis=axis), join(values, axis=axis), truth, ANY if ragged else (), formulas)


def bounded(shape: Sequence[int]) -> None:
    """Checks that a shape is small enough to be read.

    Raises:
        Unread: It has too many elements.
    """
    count = 1
    for size in shape:
        count *= size
    if count > MOST_ELEMENTS:
        raise Unread("too many elements")


# --- formulas ---

_OPS: dict[Any, str] = {
    np.add: "add", np.multiply: "multiply", np.negative: "negative", np.divide: "divide", np.exp: "exp",
    np.maximum: "maximum", np.minimum: "minimum", np.positive: "same", np.square: "square", np.reciprocal: "inverse",
    np.power: "power", np.greater: "gt", np.less: "lt", np.greater_equal: "ge", np.less_equal: "le", np.equal: "eq",
    np.not_equal: "ne", np.sqrt: "sqrt", np.sign: "sign",
}  # fmt: skip


def operation(compute: Any, name: str = "") -> str:
    """The name of an operation, the same for all ways to spell it."""
    known = _OPS.get(compute, "")
    own = getattr(compute, "__name__", "<lambda>")
    return known or (name if own.startswith(("<", "_")) else own)


def tape_of(*arrays: Any) -> Tape | None:
    """The tape of the first operand that has formulas."""
    return next((one.formulas.tape for one in arrays if isinstance(one, Array) and one.formulas), None)


def on_tape(array: Array) -> tuple[Tape, Nodes] | None:
    """The tape that an array's formulas are on, and their numbers; None if there are none."""
    formulas = array.formulas
    return None if formulas is None or formulas.tape is None else (formulas.tape, formulas.nodes)


def nodes_of(array: Array, tape: Tape) -> Nodes | None:
    """The numbers of an array's formulas; None if they are not known."""
    if array.formulas is not None:
        return array.formulas.nodes if array.formulas.tape is tape else None
    return None if np.isnan(array.values).any() else tape.constants(array.values)


def like(result: Array, found: Array) -> Array:
    """A result with the formulas of another array of its shape, which has these sources or fewer."""
    own = on_tape(found)
    return replace(result, formulas=None) if own is None or found.shape != result.shape else with_nodes(result, *own)


def formulated(result: Array, op: str, *operands: Array) -> Array:
    """A result that an operation gives of some operands."""
    tape = tape_of(*operands)
    nodes = [] if tape is None else [own for one in operands if (own := nodes_of(one, tape)) is not None]
    if tape is None or not op or len(nodes) < len(operands):
        return result
    found = spelled(tape, op, nodes, [one.values for one in operands])
    return result if found is None else with_nodes(result, tape, found)


def with_nodes(result: Array, tape: Tape, nodes: Nodes) -> Array:
    """An array with these formulas, where they are no constants."""
    known = ~np.isnan(result.values)
    nodes = np.broadcast_to(nodes, result.shape)
    if known.any():
        nodes = np.where(known, tape.constants(np.where(known, result.values, 0.0)), nodes)
    return replace(result, formulas=Formulas(tape, nodes))


# --- element by element ---


def pointwise(compute: Callable[..., Any], *operands: Any, op: str = "") -> Array:
    """An operation on each element; constants of constants are computed."""
    arrays, ragged = _aligned([as_array(operand) for operand in operands])
    return formulated(_pointwise(compute, arrays, ragged), op or operation(compute), *arrays)


def _pointwise(compute: Callable[..., Any], arrays: Sequence[Array], ragged: Any) -> Array:
    sources, values = arrays[0].sources, [array.values for array in arrays]
    if len(arrays) > 1:
        bounded(np.broadcast_shapes(*(array.shape for array in arrays)))
        for other in arrays[1:]:
            sources = sources | other.sources
    known = ~np.isnan(values[0])
    for value in values[1:]:
        known = known & ~np.isnan(value)
    if not known.any():
        return unknown(sources, ragged=ragged)
    with np.errstate(all="ignore"):
        computed = np.asarray(compute(*values), dtype=np.float64)
    return Array(np.where(known, np.zeros((), np.uint64), sources), np.where(known, computed, np.nan), ragged=ragged)


def settled(result: Array, decided: NDArray[np.bool_], values: Any) -> Array:
    """A result whose elements at some places are constants after all."""
    if not decided.any():
        return result
    nothing = np.zeros((), np.uint64)
    found = Array(
        np.where(decided, nothing, result.sources),
        np.where(decided, values, result.values),
        result.truth,
        result.ragged,
    )
    return with_nodes(found, *own) if (own := on_tape(result)) else found


def times(one: Any, other: Any) -> Array:
    """A product: nothing is left of what is multiplied by zero."""
    a, b = as_array(one), as_array(other)
    return settled(pointwise(np.multiply, a, b), (a.values == 0) | (b.values == 0), 0.0)


def over(one: Any, other: Any) -> Array:
    """A quotient."""
    a, b = as_array(one), as_array(other)
    return settled(pointwise(np.divide, a, b), (a.values == 0) & ~(b.values == 0), 0.0)


def plus(one: Any, other: Any) -> Array:
    """A sum: nothing is left of what is added to an infinity."""
    a, b = as_array(one), as_array(other)
    infinite = np.isinf(a.values) | np.isinf(b.values)
    result = pointwise(np.add, a, b)
    return settled(result, infinite, np.where(np.isinf(a.values), a.values, b.values)) if infinite.any() else result


def minus(one: Any, other: Any) -> Array:
    """A difference."""
    return plus(one, pointwise(np.negative, other))


def larger(one: Any, other: Any) -> Array:
    """The larger one of two; nothing is left of a negative infinity."""
    return _extreme(np.maximum, -np.inf, one, other)


def smaller(one: Any, other: Any) -> Array:
    """The smaller one of two; nothing is left of an infinity."""
    return _extreme(np.minimum, np.inf, one, other)


def _extreme(compute: Callable[..., Any], idle: float, one: Any, other: Any) -> Array:
    a, b = as_array(one), as_array(other)
    if not ((a.values == idle).any() or (b.values == idle).any()):
        return pointwise(compute, a, b)
    result = where(a.values == idle, b, where(b.values == idle, a, pointwise(compute, a, b)))
    own = on_tape(result)
    if own is None:
        return result
    tape, nodes = own
    # An extreme value is one also where it is of one value only.
    only = ((a.values == idle) | (b.values == idle)) & np.isnan(result.values)
    found = spelled(tape, "largest" if compute is np.maximum else "smallest", [nodes], [result.values])
    return replace(result, formulas=None) if found is None else with_nodes(result, tape, np.where(only, found, nodes))


def both(one: Any, other: Any) -> Array:
    """The conjunction of two truth values or of bits; nothing is left of one with what is false or zero."""
    a, b = as_array(one), as_array(other)
    result = pointwise(_bits(np.bitwise_and), a, b, op="and" if a.truth and b.truth else "")
    return _alike(settled(result, (a.values == 0) | (b.values == 0), 0.0), a, b)


def either(one: Any, other: Any) -> Array:
    """The disjunction of two truth values, of which nothing is left with what is true, or of bits."""
    a, b = as_array(one), as_array(other)
    result = pointwise(_bits(np.bitwise_or), a, b, op="or" if a.truth and b.truth else "")
    if not (a.truth and b.truth):
        return result
    true = ((a.values != 0) & ~np.isnan(a.values)) | ((b.values != 0) & ~np.isnan(b.values))
    return _alike(settled(result, true, 1.0), a, b)


def differing(one: Any, other: Any) -> Array:
    """The bits in which two values differ."""
    a, b = as_array(one), as_array(other)
    return _alike(pointwise(_bits(np.bitwise_xor), a, b), a, b)


def _alike(result: Array, one: Array, other: Array) -> Array:
    return truths(result) if one.truth and other.truth else result


def _bits(compute: Callable[..., Any]) -> Callable[..., Any]:
    """An operation on bits, of integers that are given as floating-point numbers."""
    return lambda *values: compute(*(np.nan_to_num(value).astype(np.int64) for value in values))


def where(condition: Any, one: Any, other: Any) -> Array:
    """One of two values by a condition; a constant condition leaves nothing of the other one."""
    if isinstance(condition, np.ndarray):
        condition = constant(condition)
    (test, a, b), ragged = _aligned([as_array(part) for part in (condition, one, other)])
    bounded(np.broadcast_shapes(test.shape, a.shape, b.shape))
    unsure = np.isnan(test.values)
    first = (test.values != 0) & ~unsure
    same = unsure & (a.values == b.values)
    sources = np.where(unsure, test.sources | a.sources | b.sources, np.where(first, a.sources, b.sources))
    values = np.where(unsure, np.nan, np.where(first, a.values, b.values))
    result = settled(Array(sources, values, a.truth and b.truth, ragged), same, a.values)
    tape = tape_of(test, a, b)
    if tape is None:
        return result
    chosen, yes, no = (nodes_of(one, tape) for one in (test, a, b))
    if yes is None or no is None or (chosen is None and unsure.any()):
        return result
    if unsure.any():
        either = None if chosen is None else tape.apply(WHERE, chosen, yes, no)
        if either is None:
            return result
        return with_nodes(result, tape, np.where(unsure, either, np.where(first, yes, no)))
    return with_nodes(result, tape, np.where(first, yes, no))
