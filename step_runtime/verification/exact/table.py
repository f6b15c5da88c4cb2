"""The operators of torch that are followed: their exact meaning, and for which types and operands it holds.

`TABLE` has those with rules on exact values. `DEFINITIONS` writes others by these, in torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from step_runtime.verification.exact import arithmetic, order, places
from step_runtime.verification.exact.constants import constants
from step_runtime.verification.exact.reductions import dims_of, matrix_product, running, summed
from step_runtime.verification.exact.value import NAN, Unknown, Value, number, selected

Operand = Any
"""A `Value`, a number, a type, or a list of these."""
Rule = Callable[..., Any]
"""What an operator gives of its operands, by their names in torch; exact values have no type yet."""


class Entry(NamedTuple):
    """An operator that is followed.

    Attributes:
        rule: What it gives.
        types: Pairs of the widest kind of its tensors and the kind of its result, as `i>f`: floats, integers, booleans.
        overloads: Those that the rule is the meaning of.
        tells: Whether it tells NaN or infinity from other numbers, so that its operands have to be defined.
        exact: Whether a format holds its results wherever it holds its operands.
        lower: Whether the rule says itself what minus infinity gives.
    """

    rule: Rule
    types: str = "f>f i>i"
    overloads: str = "default"
    tells: bool = False
    exact: bool = False
    lower: bool = False


def value_of(operand: Operand) -> Value:
    """An operand as a value.

    Raises:
        Unknown: It is none.
    """
    if isinstance(operand, Value):
        return operand
    if isinstance(operand, bool | int | float):
        return number(float(operand), torch.float64 if isinstance(operand, float) else torch.int64)
    raise Unknown(f"an operand of the kind {type(operand).__name__}")


def filling(operand: Operand, value: Value) -> Value:
    """A number that fills places of a tensor.

    Raises:
        Unknown: Its type has no such number, so that torch puts another.
    """
    found, dtype = value_of(operand), value.dtype
    floats = found.constant()
    if dtype == torch.bool and not found.bits and (floats is None or bool(((floats != 0) & (floats != 1)).any())):
        raise Unknown("other numbers among truth values")
    if not dtype.is_floating_point and dtype != torch.bool and isinstance(operand, float):
        raise Unknown("a fraction among whole numbers")
    return found


def _pair(operation: Callable[[Value, Value], Value]) -> Rule:
    return lambda one, other: operation(value_of(one), value_of(other))


def _sum(one: Operand, other: Operand, alpha: float = 1) -> Value:
    term = value_of(other)
    return arithmetic.add(value_of(one), arithmetic.multiply(term, number(alpha)) if alpha != 1 else term)


def _difference(one: Operand, other: Operand, alpha: float = 1) -> Value:
    return _sum(one, arithmetic.negative(value_of(other)), alpha)


def _absolute(value: Value) -> Value:
    found = order.largest(value, arithmetic.negative(value))
    return found.but(sign=torch.where(value.signs.abs() == 2, 2, 1).to(torch.int8))


def _over(operation: Callable[[Value, Sequence[int]], Value]) -> Rule:
    """The rule of a reduction over some dims, or all."""

    def rule(value: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
        dims = dims_of(value, dim)
        found = operation(value, dims)
        for place in sorted(dims) if keepdim else ():
            found = found.parts(lambda part, at=place + 2: part.unsqueeze(at))  # type: ignore[misc]
        return found

    return rule


def _folded(operation: Callable[[Value, int], Value]) -> Rule:
    """The rule of a reduction of one dim after the other."""

    def over(value: Value, dims: Sequence[int]) -> Value:
        for dim in sorted(dims, reverse=True):
            value = operation(value, dim)
        return value

    return _over(over)


def _running(operation: Callable[[Value, Value], Value]) -> Rule:
    def rule(value: Value, dim: int, dtype: Any = None) -> Value:
        return running(operation, value, dims_of(value, dim)[0]) if value.shape else value

    return rule


def _product(value: Value, dim: int) -> Value:
    return selected(running(arithmetic.multiply, value, dim), dim, -1)


def _running_largest(value: Value, dim: int) -> list[Value]:
    found = running(order.largest, value, dims_of(value, dim)[0])
    return [found, arithmetic.atom("place of a running extreme", found, value)]


def _place(largest: bool) -> Rule:
    def rule(value: Value, dim: int | None = None, keepdim: bool = False) -> Value:
        found = places.place_of(value, dim, largest=largest)
        return (
            found
            if dim is None or not keepdim
            else found.parts(lambda part: part.unsqueeze(dim % len(value.shape) + 2))
        )

    return rule


def _topk(value: Value, k: int, dim: int = -1, largest: bool = True, in_order: bool = True) -> list[Value]:
    if not value.shape or not in_order:
        raise Unknown("topk in no order")
    return list(places.ranked(value, dim, k, largest=largest, name="place"))


def _sort(value: Value, dim: int = -1, descending: bool = False, *, stable: bool = False) -> list[Value]:
    if not value.shape:
        raise Unknown("a sort of one number")
    name = "stable place" if stable else "sorted place"
    return list(places.ranked(value, dim, value.shape[dim], largest=descending, name=name))


def _cast(value: Value, dtype: Any, *rest: Any, **further: Any) -> Value:
    if (value.partial or value.lower is not None) and not dtype.is_floating_point:
        raise Unknown("a conversion of what may be undefined")
    return order.cast(value, dtype)


def _whole_quotient(one: Operand, other: Operand, rounding_mode: str | None = None) -> Value:
    one = value_of(one)
    quotient = arithmetic.multiply(one, arithmetic.reciprocal(value_of(other)))
    if rounding_mode is None:
        return quotient
    found = order.rounded(rounding_mode, quotient)  # type: ignore[arg-type]
    most = None if one.bounds is None or one.dtype.is_floating_point else max(map(abs, one.bounds)) + 1
    return found.but(range=most and (-most, most))


def _odd(name: str, *, even: bool = False) -> Rule:
    """A function of one number that is a free symbol of it; that of the opposite is the opposite, or the same."""
    function = getattr(torch, name)

    def rule(value: Value) -> Value:
        back = arithmetic.negative(value.plain())
        turned = (value.data[0] > back.data[0]).unsqueeze(0)
        lower = value.plain(data=torch.where(turned, back.data, value.data))
        found = arithmetic.atom(name, lower)
        if not even:
            found = found.but(data=torch.where(turned, arithmetic.negative(found).data, found.data))
        known = function(value.known)
        whole = value.zero | (known == 0)
        known = torch.where(value.zero, float(even), torch.where(known.isfinite(), known, NAN))
        return found.but(data=torch.where(whole, constants(torch.where(whole, known, 0.0)[0]), found.data), known=known)

    return rule


_FLOATS = "f>f i>f b>f"
_SAME = "f>f i>i b>b"
_PLACED = "f>f i>i i>b"
_TRUTHS = "f>b i>b b>b"

TABLE: dict[str, Entry] = {
    # Of booleans, torch's sum is their disjunction.
    "add": Entry(_sum, "f>f i>i i>f b>i b>f", "Tensor Scalar", lower=True),
    "sub": Entry(_difference, "f>f i>i i>f", "Tensor Scalar", lower=True),
    "mul": Entry(_pair(arithmetic.multiply), "f>f i>i i>f b>b b>i b>f", "Tensor Scalar", lower=True),
    "div": Entry(_whole_quotient, f"{_FLOATS} i>i", "Tensor Scalar Tensor_mode Scalar_mode", lower=True),
    "floor_divide": Entry(lambda one, other: _whole_quotient(one, other, "floor"), overloads="default Scalar"),
    "pow": Entry(_pair(arithmetic.power), "f>f i>f", "Tensor_Scalar Tensor_Tensor Scalar"),
    "neg": Entry(arithmetic.negative),
    "abs": Entry(_absolute),
    "reciprocal": Entry(arithmetic.reciprocal, _FLOATS),
    "exp": Entry(arithmetic.exponential, _FLOATS, lower=True),
    "log": Entry(arithmetic.logarithm, _FLOATS),
    "sqrt": Entry(arithmetic.root, _FLOATS),
    "cos": Entry(_odd("cos", even=True), _FLOATS),
    **{name: Entry(_odd(name), _FLOATS) for name in ("sin", "erf", "atan")},
    "maximum": Entry(_pair(order.largest), _SAME, exact=True, lower=True),
    "fmax": Entry(_pair(order.largest), tells=True),
    "where": Entry(
        lambda condition, one, other: order.choose(condition, value_of(one), value_of(other)),
        _SAME, "self ScalarOther ScalarSelf Scalar", exact=True, lower=True,
    ),
    "masked_fill": Entry(
        lambda value, mask, other: order.choose(mask, filling(other, value), value),
        _SAME, "Scalar Tensor", exact=True, lower=True,
    ),
    **{name: Entry(lambda value, n=name: order.rounded(n, value)) for name in ("floor", "ceil", "trunc", "round")},
    "gt": Entry(_pair(order.above), _TRUTHS, "Tensor Scalar", tells=True, lower=True),
    "eq": Entry(_pair(order.equal), _TRUTHS, "Tensor Scalar", tells=True, lower=True),
    "logical_not": Entry(lambda value: order.invert(order.as_bits(value)), _TRUTHS, tells=True),
    "logical_and": Entry(_pair(order.both), _TRUTHS, tells=True),
    "bitwise_not": Entry(order.invert, "b>b"),
    "bitwise_and": Entry(_pair(order.both), "b>b", "Tensor Scalar"),
    # Sums of numbers that torch cuts off or tests first are others.
    "sum": Entry(_over(summed), "f>f i>i i>f b>i b>f", "default dim_IntList", lower=True),
    "prod": Entry(_folded(_product), "f>f i>i i>f b>i", "default dim_int"),
    "cumsum": Entry(_running(arithmetic.add), "f>f i>i i>f b>i"),
    "cumprod": Entry(_running(arithmetic.multiply), "f>f i>i i>f b>i"),
    "cummax": Entry(_running_largest, tells=True),
    "amax": Entry(_folded(order.largest_along), exact=True, lower=True),
    "argmax": Entry(_place(True), "f>i i>i", tells=True, lower=True),
    "argmin": Entry(_place(False), "f>i i>i", tells=True),
    "topk": Entry(_topk, tells=True, exact=True, lower=True),
    "sort": Entry(_sort, overloads="default stable", tells=True, exact=True, lower=True),
    **{name: Entry(matrix_product) for name in ("mm", "bmm")},
    "gather": Entry(lambda value, dim, index, sparse_grad=False: places.gathered(value, dim, index), _PLACED),
    "scatter": Entry(
        lambda value, dim, index, source: places.scattered(value, dim, index, filling(source, value)),
        _PLACED, "src value",
    ),
    "index": Entry(places.indexed, _PLACED, "Tensor"),
    "to": Entry(_cast, "f>f f>i f>b i>f i>i i>b b>f b>i b>b", "default dtype dtype_layout", exact=True, lower=True),
}  # fmt: skip


# --- operators that are written by others ---


def _softmax(x: Tensor, dim: int, half: bool = False) -> Tensor:
    powers = x.exp()
    return powers / powers.sum(dim, keepdim=True)


def _sigmoid(x: Tensor) -> Tensor:
    powers = x.exp()
    return powers / (1 + powers)


def _tanh(x: Tensor) -> Tensor:
    powers = (x + x).exp()
    return (powers - 1) / (powers + 1)


def _log_sum(x: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    return x.exp().sum(dim, keepdim).log()


def _mean(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, less: float = 0) -> Tensor:
    dims = [*range(x.dim())] if dim is None or dim == [] else dim if isinstance(dim, list | tuple) else [dim]
    count: float = math.prod(x.shape[one] for one in dims) - less
    return x.sum(dims, keepdim, dtype=dtype) / count


def _var(x: Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: Any = None) -> Tensor:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    less = float(unbiased) if correction is None else float(correction)
    gap = x - _mean(x, dim, True)
    return _mean(gap * gap, dim, keepdim, less=less)


def _var_mean(
    x: Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: Any = None
) -> Any:
    mean = _mean(x, None if isinstance(dim, bool) else dim, keepdim)
    return _var(x, dim, unbiased, keepdim, correction=correction), mean


def _norm(x: Tensor, order: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    dims = [*range(x.dim())] if dim is None else dim
    if order == 2:
        return (x * x).sum(dims, keepdim).sqrt()
    if order == 1:
        return x.abs().sum(dims, keepdim)
    raise Unknown("a norm of another order")


def _clamp(x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    x = x if low is None else torch.maximum(*_promoted(x, low))
    return x if high is None else _least(*_promoted(x, high))


def _promoted(one: Any, other: Any) -> list[Tensor]:
    """Tensors of one type, as torch promotes them."""
    dtype = torch.result_type(one, other)
    return [_tensor(each).to(dtype) for each in (one, other)]


def _tensor(number: Any) -> Tensor:
    if isinstance(number, Tensor):
        return number
    return torch.tensor(number, dtype=torch.float64 if isinstance(number, float) else None)


def _least(one: Tensor, other: Tensor) -> Tensor:
    return -torch.maximum(-one, -other)


def _gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    if approximate == "tanh":
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))


def _softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    if (beta, threshold) != (1, 20):
        raise Unknown("softplus of another form")
    return (1 + x.exp()).log()


def _windows(x: Tensor, kernel: Sequence[int], stride: Any, padding: Any, dilation: Any) -> Tensor:
    """The windows of images, `(count, channels, numbers of a window, places)`."""
    found: Tensor = torch.ops.aten.im2col(x, list(kernel), list(dilation), list(padding), list(stride))
    return found.reshape(found.shape[0], x.shape[1], math.prod(kernel), -1)


def _convolution(x: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
                 output_padding: Any, groups: int) -> Tensor:  # fmt: skip
    flat = x.dim() == 3
    if transposed or x.dim() not in (3, 4):
        raise Unknown("a transposed convolution, or one of more dims")
    if flat:
        x, weight = x.unsqueeze(2), weight.unsqueeze(2)
    pairs = [
        [default, *one] if flat else [*one] * (1 if len(one) > 1 else 2)
        for one, default in ((stride, 1), (padding, 0), (dilation, 1))
    ]
    sizes = [
        (length + 2 * pad - gap * (kernel - 1) - 1) // step + 1
        for length, kernel, step, pad, gap in zip(x.shape[2:], weight.shape[2:], *pairs, strict=True)
    ]
    columns = _windows(x, weight.shape[2:], *pairs).reshape(x.shape[0], groups, -1, math.prod(sizes))
    filters = weight.reshape(1, groups, weight.shape[0] // groups, -1).expand(x.shape[0], -1, -1, -1)
    found = torch.bmm(filters.flatten(0, 1), columns.flatten(0, 1)).reshape(x.shape[0], -1, *sizes)
    found = found if bias is None else found + bias.reshape(1, -1, 1, 1)
    return found.squeeze(2) if flat else found


def _pool(
    x: Tensor, kernel: Any, stride: Any = (), padding: Any = (0, 0), dilation: Any = (1, 1), ceil: bool = False
) -> Any:
    if ceil or len(kernel) != 2 or x.dim() not in (3, 4):
        raise Unknown("a pooling of another form")
    whole = x if x.dim() == 4 else x.unsqueeze(0)
    pads = [padding[1], padding[1], padding[0], padding[0]]
    padded = torch.constant_pad_nd(whole, pads, -math.inf)
    windows = _windows(padded, kernel, stride or kernel, (0, 0), dilation)
    sizes = [
        (length - gap * (size - 1) - 1) // step + 1
        for length, size, step, gap in zip(padded.shape[2:], kernel, stride or kernel, dilation, strict=True)
    ]
    found = windows.amax(2).reshape(*whole.shape[:2], *sizes)
    found = found if x.dim() == 4 else found.squeeze(0)
    return found, torch.full_like(found, -1, dtype=torch.int64)


def _extreme(name: str) -> Callable[..., Any]:
    """`max` and `min`: of all numbers, of two tensors, or along a dim with places."""

    def rule(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], Tensor):
            return getattr(torch, f"{name}imum")(x, args[0])
        found = getattr(torch, f"a{name}")(x, *args, **kwargs)
        return (found, getattr(torch, f"arg{name}")(x, *args, **kwargs)) if args or kwargs else found

    return rule


def _all(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    x = x.bool()
    dims = [*range(x.dim())] if dim is None else dim if isinstance(dim, list | tuple) else [dim]
    for one in sorted((one % x.dim() for one in dims), reverse=True):
        x = x.prod(one, keepdim).bool()
    return x


def _remains(rounding: str) -> Callable[[Any, Any], Tensor]:
    return lambda one, other: one - torch.div(one, other, rounding_mode=rounding) * other


def _fourier(x: Tensor, dims: Sequence[int], normalization: int, onesided: bool) -> Tensor:
    """The discrete Fourier transform of real numbers along one dim."""
    if len(dims) != 1 or normalization:
        raise Unknown("a Fourier transform of another form")
    size = x.shape[dims[0]]
    turns = torch.outer(torch.arange(size // 2 + 1 if onesided else size), torch.arange(size))
    rows, angles = x.movedim(dims[0], -1).unsqueeze(-2), turns * (2 * math.pi / size)
    return torch.complex(*((rows * part).sum(-1).movedim(-1, dims[0]) for part in (angles.cos(), -angles.sin())))


DEFINITIONS: Mapping[str, Callable[..., Any]] = {
    "minimum": _least,
    "fmin": lambda one, other: -torch.fmax(-one, -other),
    "lt": lambda one, other: torch.gt(_tensor(other), one),
    "le": lambda one, other: torch.gt(one, other).logical_not(),
    "ge": lambda one, other: torch.gt(_tensor(other), one).logical_not(),
    "ne": lambda one, other: torch.eq(one, other).logical_not(),
    "logical_or": lambda one, other: (one.logical_not() & other.logical_not()).logical_not(),
    "bitwise_or": lambda one, other: (one.logical_not() & _tensor(other).logical_not()).logical_not(),
    "logical_xor": lambda one, other: torch.ne(one.bool(), other.bool()),
    "bitwise_xor": torch.ne,
    "isnan": lambda x: torch.ne(x, x),
    "any": lambda x, dim=None, keepdim=False: _all(x.logical_not(), dim, keepdim).logical_not(),
    "all": _all,
    "relu": lambda x: torch.maximum(x, torch.zeros((), dtype=x.dtype)),
    "sign": lambda x: torch.gt(x, 0).to(x.dtype) - torch.gt(torch.zeros((), dtype=x.dtype), x).to(x.dtype),
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": lambda x, high: _clamp(x, None, high),
    "remainder": _remains("floor"),
    "fmod": _remains("trunc"),
    "rsqrt": lambda x: x.sqrt().reciprocal(),
    "hypot": lambda one, other: (one * one + other * other).sqrt(),
    "exp2": lambda x: torch.pow(2, x),
    "expm1": lambda x: x.exp() - 1,
    "log1p": lambda x: (1 + x).log(),
    "sinh": lambda x: (x.exp() - (-x).exp()) / 2,
    "cosh": lambda x: (x.exp() + (-x).exp()) / 2,
    "sigmoid": _sigmoid,
    "tanh": _tanh,
    "gelu": _gelu,
    "softplus": _softplus,
    "log_sigmoid_forward": lambda x: (x.sigmoid().log(), x),
    "logaddexp": lambda one, other: (one.exp() + other.exp()).log(),
    "logcumsumexp": lambda x, dim: x.exp().cumsum(dim).log(),
    "logsumexp": _log_sum,
    "_softmax": _softmax,
    "_log_softmax": lambda x, dim, half=False: x - _log_sum(x, dim, True),
    "glu": lambda x, dim=-1: x.chunk(2, dim)[0] * x.chunk(2, dim)[1].sigmoid(),
    # The gap is no number where both are infinite, as in torch.
    "lerp": lambda start, end, weight: (1 - weight) * start + weight * end + 0 * (end - start),
    "mean": _mean,
    "var": _var,
    "var_mean": _var_mean,
    "linalg_vector_norm": _norm,
    "_cdist_forward": lambda one, other, p, mode: _norm(one.unsqueeze(-2) - other.unsqueeze(-3), p, [-1]),
    "amin": lambda x, dim=(), keepdim=False: -(-x).amax(dim, keepdim),
    "max": _extreme("max"),
    "min": _extreme("min"),
    "cummin": lambda x, dim: (-(-x).cummax(dim)[0], (-x).cummax(dim)[1]),
    "convolution": _convolution,
    "max_pool2d_with_indices": _pool,
    "index_select": lambda x, dim, index: torch.ops.aten.index(x, [None] * (dim % x.dim()) + [index]),
    "polar": lambda size, angle: torch.complex(size * angle.cos(), size * angle.sin()),
    "_fft_r2c": _fourier,
    "embedding": lambda weight, index, *rest: torch.ops.aten.index(weight, [index]),
    "full_like": lambda x, value, *, dtype=None, **kwargs: torch.full(x.shape, value, dtype=dtype or x.dtype),
}  # fmt: skip
"""Operators by others, of operands in double precision; what they round is rounded once, as in torch."""
COPYING = frozenset({"index_select", "embedding", "full_like"})
"""Those that round nothing: they have any format."""
