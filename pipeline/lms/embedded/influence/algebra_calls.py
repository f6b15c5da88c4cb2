"""What PyTorch's linear algebra and Fourier transforms do to arrays of sources.

Of a decomposition or an inverse every element depends on the whole matrix, except where the order of elimination says
less. A transform mixes all of the dims that it runs along.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from pipeline.lms.embedded.influence.arrays import (
    Array,
    Unread,
    as_array,
    bounded,
    constant,
    joined_by,
    like,
    minus,
    over,
    plus,
    pointwise,
    times,
    unknown,
)
from pipeline.lms.embedded.influence.dim_calls import norm
from pipeline.lms.embedded.influence.indexing import replaced, selected
from pipeline.lms.embedded.influence.reductions import axes_of, contracted, product, reduced, total
from pipeline.lms.embedded.influence.shape_calls import axis_of, ints, pad, select, stack, turned_matrices

_LARGEST_INVERSE = 4


def everything(data: Array, shape: Sequence[int], count: int = 2) -> Array:
    """Elements in place of the last dims, each of which depends on all that are there."""
    every = reduced(data, tuple(range(-count, 0))).sources
    bounded((*every.shape, *shape))
    spread = every.reshape((*every.shape, *[1] * len(shape)))
    return unknown(np.broadcast_to(spread, (*every.shape, *shape)))


# --- matrices ---


def _whole(data: Array, *_: Any, **__: Any) -> Array:
    """A matrix of which each element depends on all."""
    return everything(data, data.shape[-2:])


def _eliminated(data: Array) -> tuple[Array, Array] | None:
    """The formulas of the inverse and of the determinant of matrices, by elimination; None if there are none."""
    size = data.shape[-1]
    if data.formulas is None or size != data.shape[-2] or size > _LARGEST_INVERSE:
        return None
    one = constant(np.eye(size)).through(lambda part: np.broadcast_to(part, data.shape))
    rows = [joined_by(np.concatenate, [_row(data, place), _row(one, place)], -1) for place in range(size)]
    determinant: Array = constant(1.0)
    for place in range(size):
        pivot = rows[place].through(lambda part: part[..., place : place + 1])  # noqa: B023 (called at once)
        determinant = times(determinant, pivot.through(lambda part: part[..., 0]))
        rows[place] = over(rows[place], pivot)
        for other in range(size):
            if other != place:
                factor = rows[other].through(lambda part: part[..., place : place + 1])  # noqa: B023
                rows[other] = minus(rows[other], times(factor, rows[place]))
    return joined_by(np.stack, rows, data.ndim - 2).through(lambda part: part[..., size:]), determinant


def _row(data: Array, place: int) -> Array:
    return data.through(lambda part: part[..., place, :])


def inverse(data: Array, *_: Any, **__: Any) -> Array:
    """As `torch.linalg.inv`."""
    found = _eliminated(data)
    return _whole(data) if found is None else like(_whole(data), found[0])


def determinant(data: Array, *_: Any, **__: Any) -> Array:
    """As `torch.linalg.det`."""
    found = _eliminated(data)
    return _number(data) if found is None else like(_number(data), found[1])


def logdet(data: Array) -> Array:
    """As `torch.logdet`."""
    return pointwise(np.log, determinant(data))


def _number(data: Array, *_: Any, **__: Any) -> Array:
    """A number of a matrix, such as a determinant."""
    return everything(data, ())


def _values(data: Array, *_: Any, **__: Any) -> Array:
    """The eigenvalues or singular values of a matrix."""
    return everything(data, (min(data.shape[-2:]),))


def pinv(data: Array, *_: Any, **__: Any) -> Array:
    """As `torch.linalg.pinv`."""
    return everything(data, data.shape[:-3:-1])


def eigh(data: Array, *_: Any, **__: Any) -> tuple[Array, Array]:
    """As `torch.linalg.eigh` and `eig`."""
    return _values(data), _whole(data)


def svd(data: Array, full_matrices: bool = True, *_: Any, **__: Any) -> tuple[Array, Array, Array]:
    """As `torch.linalg.svd`."""
    rows, columns = data.shape[-2:]
    least = min(rows, columns)
    widths = (rows, columns) if full_matrices else (least, least)
    return everything(data, (rows, widths[0])), _values(data), everything(data, (widths[1], columns))


def qr(data: Array, mode: str = "reduced", *_: Any, **__: Any) -> tuple[Array, Array]:
    """As `torch.linalg.qr`: columns depend on those up to them."""
    rows, columns = data.shape[-2:]
    if mode != "reduced":
        raise Unread("a complete decomposition")
    upto = np.bitwise_or.accumulate(reduced(data, -2, keepdim=True).sources, axis=-1)
    least = min(rows, columns)
    left = unknown(np.broadcast_to(upto[..., :least], (*data.shape[:-1], least)))
    kept = np.triu(np.ones((least, columns), bool))
    right = np.where(kept, upto, np.zeros((), np.uint64))
    return left, Array(right, np.where(kept, np.nan, np.zeros(right.shape)))


def cholesky(data: Array, upper: bool = False, *_: Any, **__: Any) -> Array:
    """As `torch.linalg.cholesky`, which reads the lower triangle."""
    given = turned_matrices(data) if upper else data
    size = data.shape[-1]
    result = constant(np.zeros(data.shape))
    for row in range(size):
        for column in range(row + 1):
            known = (selected(result, (Ellipsis, place, slice(0, column))) for place in (row, column))
            own = minus(selected(given, (Ellipsis, row, column)), total(times(*known), -1))
            if column < row:
                own = over(own, selected(result, (Ellipsis, column, column)))
            result = replaced(result, (Ellipsis, row, column), unknown(own.sources))
    return turned_matrices(result) if upper else result


def solve_triangular(matrix: Array, right: Array, *_: Any, upper: bool = True, left: bool = True,
                     unitriangular: bool = False, **__: Any) -> Array:  # fmt: skip
    """As `torch.linalg.solve_triangular`."""
    if not left:
        found = solve_triangular(
            turned_matrices(matrix), turned_matrices(right), upper=not upper, unitriangular=unitriangular
        )
        return turned_matrices(found)
    size = matrix.shape[-1]
    shape = (*np.broadcast_shapes(matrix.shape[:-2], right.shape[:-2]), *right.shape[-2:])
    result = right.through(lambda part: np.broadcast_to(part, shape))
    for row in range(size)[:: -1 if upper else 1]:
        known = slice(row + 1, None) if upper else slice(0, row)
        factors = selected(matrix, (Ellipsis, row, known)).through(lambda part: part[..., None])
        own = minus(selected(result, (Ellipsis, row, slice(None))),
                    total(times(factors, selected(result, (Ellipsis, known, slice(None)))), -2))  # fmt: skip
        if not unitriangular:
            own = over(own, selected(matrix, (Ellipsis, row, slice(row, row + 1))))
        result = replaced(result, (Ellipsis, row, slice(None)), own)
    return result


def triangular_solve(right: Array, matrix: Array, upper: bool = True, *_: Any, **__: Any) -> tuple[Array, Array]:
    """As `torch.triangular_solve`."""
    return solve_triangular(matrix, right, upper=upper), matrix


def solve(matrix: Array, right: Array, *_: Any, left: bool = True, **__: Any) -> Array:
    """As `torch.linalg.solve`."""
    if not left:
        return product(right, inverse(matrix))
    return product(inverse(matrix), right)


def lstsq(matrix: Array, right: Array, *_: Any, **__: Any) -> tuple[Array, Array, Array, Array]:
    """As `torch.linalg.lstsq`."""
    values = _number(matrix)
    return (
        product(pinv(matrix), right),
        reduced(unknown(values.sources | reduced(right).sources)),
        values,
        _values(matrix),
    )


def matrix_power(data: Array, n: Any) -> Array:
    """As `torch.linalg.matrix_power`."""
    (power,) = ints((n,))
    if power < 0:
        return matrix_power(_whole(data), -power)
    one = constant(np.eye(data.shape[-1])).through(lambda part: np.broadcast_to(part, data.shape))
    return reduce(product, [data] * min(power, data.shape[-1] + 1)) if power else one


def vector_norm(data: Array, p: Any = None, dim: Any = None, keepdim: bool = False, **named: Any) -> Array:
    """As `torch.linalg.vector_norm`."""
    return norm(data, named.get("ord", p), dim, keepdim)


def matrix_norm(data: Array, p: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, **named: Any) -> Array:
    """As `torch.linalg.matrix_norm`."""
    return norm(data, named.get("ord", p), dim, keepdim)


def trace(data: Array) -> Array:
    """As `torch.trace`."""
    return total(data.through(np.diagonal))


def cross(data: Array, other: Array, dim: Any = -1) -> Array:
    """As `torch.linalg.cross`."""
    a, b = as_array(data), as_array(other)
    axis = axis_of(dim, max(a.ndim, b.ndim)) - max(a.ndim, b.ndim)
    parts = [[select(one, axis, place) for place in range(3)] for one in (a, b)]
    turns = ((1, 2), (2, 0), (0, 1))
    return stack([minus(times(parts[0][i], parts[1][j]), times(parts[0][j], parts[1][i])) for i, j in turns], axis)


def tensordot(a: Array, b: Array, dims: Any = 2) -> Array:
    """As `torch.tensordot`."""
    if isinstance(dims, int):
        dims = (list(range(a.ndim - dims, a.ndim)), list(range(dims)))
    here, there = (axes_of(tuple(ints((one,))), array.ndim) for one, array in zip(dims, (a, b), strict=True))
    letters = "abcdefghijklmnopqrstuvwxyz"
    first, second = list(letters[: a.ndim]), list(letters[a.ndim : a.ndim + b.ndim])
    for one, other in zip(here, there, strict=True):
        second[other] = first[one]
    kept = [name for place, name in enumerate(first) if place not in here]
    kept += [name for place, name in enumerate(second) if place not in there]
    return contracted(f"{''.join(first)},{''.join(second)}->{''.join(kept)}", a, b)


def kron(data: Array, other: Array) -> Array:
    """As `torch.kron`."""
    rank = max(data.ndim, other.ndim)
    a, b = ((*[1] * (rank - one.ndim), *one.shape) for one in (data, other))
    wide = data.through(lambda part: part.reshape([size for one in a for size in (one, 1)]))
    fine = other.through(lambda part: part.reshape([size for one in b for size in (1, one)]))
    shape = [one * two for one, two in zip(a, b, strict=True)]
    return times(wide, fine).through(lambda part: part.reshape(shape))


def inner(data: Array, other: Array) -> Array:
    """As `torch.inner`."""
    return tensordot(data, other, ([-1], [-1])) if data.ndim and other.ndim else times(data, other)


def vander(x: Array, N: Any = None, increasing: bool = False) -> Array:
    """As `torch.vander` and `torch.linalg.vander`."""
    count = x.shape[-1] if N is None else N
    bounded((*x.shape, count))
    one = constant(np.ones(x.shape))
    powers = [one, *[unknown(x.sources)] * (count - 1)]
    return stack(powers if increasing else powers[::-1], -1)


def cov(data: Array, **_: Any) -> Array:
    """As `torch.cov` and `torch.corrcoef`."""
    rows = reduced(data, -1).sources if data.ndim > 1 else reduced(data).sources
    return unknown(rows[:, None] | rows) if rows.ndim else unknown(rows)


def multi_dot(tensors: Sequence[Any], *more: Any, **_: Any) -> Array:
    """As `torch.linalg.multi_dot` and `torch.chain_matmul`."""
    result: Array = reduce(product, [tensors, *more] if isinstance(tensors, Array) else list(tensors))
    return result


def baddbmm(data: Any, *factors: Any, beta: Any = 1, alpha: Any = 1) -> Array:
    """As `torch.addmm`, `addmv`, `addbmm` and `baddbmm`."""
    result = times(product(*factors), alpha)
    return result if beta == 0 else plus(times(data, beta), result)


# --- Fourier transforms ---


def _transformed(data: Array, axis: int, size: int, whole: Any) -> Array:
    """Each element along a dim by all of it, where the transform first cuts it or fills it up."""
    if whole is not None:
        (length,) = ints((whole,))
        bounded((*data.shape, length))
        data = pad(data, [0, 0] * (data.ndim - 1 - axis) + [0, length - data.shape[axis]])
    every = reduced(data, axis, keepdim=True).sources
    bounded((*every.shape, size))
    return unknown(np.repeat(every, size, axis))


def _size(kind: str, length: int, n: Any) -> int:
    """The number of elements of a transform's result."""
    (count,) = ints((length if n is None else n,))
    if kind in ("rfft", "ihfft"):
        return count // 2 + 1
    return count if n is not None or kind not in ("irfft", "hfft") else 2 * (length - 1)


def _fft(kind: str) -> Callable[..., Array]:
    """A transform along one dim; `irfft` and `hfft` give twice as many elements as they take."""

    def transform(data: Array, n: Any = None, dim: Any = -1, norm: Any = None) -> Array:
        axis = axis_of(dim, data.ndim)
        size = _size(kind, data.shape[axis], n)
        taken = size // 2 + 1 if kind in ("irfft", "hfft") else n
        return _transformed(data, axis, size, taken)

    return transform


def _fftn(kind: str, last: Any) -> Callable[..., Array]:
    """A transform along several dims, of which the last one may be halved or doubled."""

    def transform(data: Array, s: Any = None, dim: Any = last, norm: Any = None) -> Array:
        axes = axes_of(tuple(range(-len(s), 0)) if dim is None and s is not None else dim, data.ndim)
        lengths = ints((s,)) if s is not None else [None] * len(axes)
        for place, (axis, length) in enumerate(zip(axes, lengths, strict=True)):
            own = kind if place == len(axes) - 1 else "fft"
            data = _fft(own)(data, length, axis)
        return data

    return transform


def fftshift(data: Array, dim: Any = None, *, back: bool = False) -> Array:
    """As `torch.fft.fftshift`."""
    shift = np.fft.ifftshift if back else np.fft.fftshift
    return data.through(lambda part: shift(part, axes_of(dim, data.ndim)))


def fftfreq(n: Any, d: Any = 1.0, **_: Any) -> Array:
    """As `torch.fft.fftfreq`."""
    bounded(ints((n,)))
    return constant(np.fft.fftfreq(ints((n,))[0], d))


def rfftfreq(n: Any, d: Any = 1.0, **_: Any) -> Array:
    """As `torch.fft.rfftfreq`."""
    bounded(ints((n,)))
    return constant(np.fft.rfftfreq(ints((n,))[0], d))


def view_as_complex(data: Array) -> Array:
    """As `torch.view_as_complex`."""
    return reduced(data, -1)


def convolved(a: Array, v: Array, mode: str = "full") -> Array:
    """As `numpy.convolve`."""
    size = a.shape[0] + v.shape[0] - 1
    parts = [pad(times(a, selected(v, place)), (place, size - a.shape[0] - place)) for place in range(v.shape[0])]
    if mode != "full":
        raise Unread("a convolution that is cut")
    return total(joined_by(np.stack, parts, 0), 0)


CALLS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("matrix_exp", "cholesky_inverse"), _whole), "inv": inverse, "inverse": inverse,
    "det": determinant, "logdet": logdet, **dict.fromkeys(("matrix_rank", "cond"), _number),
    **dict.fromkeys(("eigvals", "eigvalsh", "svdvals"), _values),
    "slogdet": lambda data: (_number(data), _number(data)), "inv_ex": lambda data, **_: (inverse(data), _number(data)),
    "pinv": pinv, "pinverse": pinv, "eigh": eigh, "eig": eigh, "svd": svd, "qr": qr, "cholesky": cholesky,
    "cholesky_ex": lambda data, **named: (cholesky(data, **named), _number(data)),
    "cholesky_solve": lambda data, factor, *_, **__: product(_whole(factor), data),
    "solve_triangular": solve_triangular, "triangular_solve": triangular_solve, "solve": solve, "lstsq": lstsq,
    "matrix_power": matrix_power, "matrix_norm": matrix_norm, "vector_norm": vector_norm, "trace": trace,
    "cross": cross,
    "tensordot": tensordot, "kron": kron, "inner": inner, "vdot": product, "vander": vander, "cov": cov,
    "corrcoef": cov, "multi_dot": multi_dot, "chain_matmul": multi_dot,
    **dict.fromkeys(("addmm", "addmv", "baddbmm"), baddbmm),
    "addbmm": lambda data, one, other, **_: plus(data, total(product(one, other), 0)),
    "addr": lambda data, one, other, **_: plus(data, contracted("n,m->nm", one, other)),
    **{name: _fft(name) for name in ("rfft", "irfft", "hfft", "ihfft")},
    **dict.fromkeys(("fft", "ifft"), _fft("fft")), **dict.fromkeys(("fft2", "ifft2"), _fftn("fft", (-2, -1))),
    **dict.fromkeys(("fftn", "ifftn"), _fftn("fft", None)), "rfft2": _fftn("rfft", (-2, -1)),
    "rfftn": _fftn("rfft", None), "irfft2": _fftn("irfft", (-2, -1)), "irfftn": _fftn("irfft", None),
    "fftshift": fftshift, "ifftshift": lambda data, dim=None: fftshift(data, dim, back=True), "fftfreq": fftfreq,
    "rfftfreq": rfftfreq, "view_as_complex": view_as_complex, "convolve": convolved,
}  # fmt: skip
"""The calls by their names."""
