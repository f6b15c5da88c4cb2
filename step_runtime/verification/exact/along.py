"""Rules of operators along dims: reductions, ranks, products of matrices, windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from step_runtime.verification.exact import arithmetic, extremes, facts, truth
from step_runtime.verification.exact.choices import place_of_one, ranked
from step_runtime.verification.exact.operands import Operand, Result, Rule, value_of
from step_runtime.verification.exact.pointwise import absolute, get, sigmoid
from step_runtime.verification.exact.reductions import (
    dims_of,
    extreme,
    matrix_product,
    meaned,
    running,
    summed,
    variance,
)
from step_runtime.verification.exact.value import NONE, Value, joined, number

_FLOAT = torch.float64
Args = Sequence[Operand]
Options = dict[str, Any]


def softmax(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of `softmax`."""
    value = value_of(args[0])
    powers = arithmetic.exponential(value, result.dtype)
    found = arithmetic.divide(powers, summed(powers, dims_of(value, args[1]), result.dtype, keep=True), result.dtype)
    if value.logs is None and not value.lower:
        facts.set_positive(found.data)
    return found


def log_softmax(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of `log_softmax`."""
    value = value_of(args[0])
    return arithmetic.subtract(value, log_sum(value, args[1], result.dtype, keep=True), result.dtype)


def log_sum(value: Value, dims: Any, dtype: torch.dtype, *, keep: bool) -> Value:
    """The logarithm of a sum of exponentials."""
    total = summed(arithmetic.exponential(value, dtype), dims_of(value, dims), dtype, keep=keep)
    return arithmetic.logarithm(total, dtype)


def logsumexp(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of `logsumexp`."""
    return log_sum(value_of(args[0]), args[1], result.dtype, keep=bool(get(args, kwargs, 2, "keepdim", False)))


def logcumsumexp(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of `logcumsumexp`."""
    powers = arithmetic.exponential(value_of(args[0]), result.dtype)
    return arithmetic.logarithm(
        running(arithmetic.add, powers, dims_of(powers, args[1])[0], result.dtype), result.dtype
    )


def sum_rule(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of `sum`."""
    value = value_of(args[0])
    dims, keep = dims_of(value, get(args, kwargs, 1, "dim")), bool(get(args, kwargs, 2, "keepdim", False))
    return summed(value, dims, result.dtype, keep=keep)


def mean(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of `mean`."""
    value = value_of(args[0])
    dims, keep = dims_of(value, get(args, kwargs, 1, "dim")), bool(get(args, kwargs, 2, "keepdim", False))
    return meaned(value, dims, result.dtype, keep=keep)


def var(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of `var`."""
    value = value_of(args[0])
    dims, keep = dims_of(value, get(args, kwargs, 1, "dim")), bool(kwargs.get("keepdim", False))
    correction = kwargs.get("correction", 1)
    if isinstance(get(args, kwargs, 1, "dim"), bool) or len(args) > 2:
        return variance(value, dims, result.dtype, keep=keep, correction=float(bool(args[2])) if len(args) > 2 else 1.0)
    return variance(value, dims, result.dtype, keep=keep, correction=1.0 if correction is None else float(correction))


def var_mean(args: Args, kwargs: Options, result: Result) -> list[Value]:
    """The rule of `var_mean`."""
    value = value_of(args[0])
    found = var(args, kwargs, result)
    dims, keep = dims_of(value, get(args, kwargs, 1, "dim")), bool(kwargs.get("keepdim", False))
    return [found, meaned(value, dims, result.dtype, keep=keep)]


def prod(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of `prod`."""
    value = value_of(args[0])
    dims = dims_of(value, get(args, kwargs, 1, "dim"))
    found = value
    keep = bool(get(args, kwargs, 2, "keepdim", False))
    for dim in sorted(dims, reverse=True):
        found = running(arithmetic.multiply, found, dim, result.dtype)
        found = found.parts(lambda part, d=dim: part.select(d + 2, -1))  # type: ignore[misc]
    if keep:
        found = found.parts(lambda part: part.reshape(*part.shape[:2], *result.shape))
    return found


def extremes_rule(least: bool) -> Rule:
    """The rule of extremes over dims."""

    def rule(args: Args, kwargs: Options, result: Result) -> Value:
        value = value_of(args[0])
        dims, keep = dims_of(value, get(args, kwargs, 1, "dim")), bool(get(args, kwargs, 2, "keepdim", False))
        return extreme(value, dims, result.dtype, keep=keep, least=least)

    return rule


def extreme_with_place(least: bool) -> Rule:
    """`max` and `min`, of all numbers or along a dim with places."""

    def rule(args: Args, kwargs: Options, result: Result) -> Any:
        value = value_of(args[0])
        if len(args) == 1 and "dim" not in kwargs:
            return extreme(value, dims_of(value, None), result.dtype, keep=False, least=least)
        if len(args) > 1 and isinstance(args[1], Value):
            return (extremes.smallest if least else extremes.largest)(value, args[1], result.dtype)
        dim = get(args, kwargs, 1, "dim")
        values, places = ranked(value, dim, 1, largest=not least, name="first place")
        if not get(args, kwargs, 2, "keepdim", False):
            at = dims_of(value, dim)[0] + 2
            values, places = (one.parts(lambda part: part.squeeze(at)) for one in (values, places))
        return [values, places]

    return rule


def argument(least: bool) -> Rule:
    """The rule of the place of an extreme."""

    def rule(args: Args, kwargs: Options, result: Result) -> Value | None:
        value = value_of(args[0])
        dim = get(args, kwargs, 1, "dim")
        if dim is None:
            value, dim = value.parts(lambda part: part.reshape(*part.shape[:2], -1)), 0
        if value.roots is not None and bool((value.roots[:1] != NONE).all()):
            value = value.plain(data=value.roots, size=value.inner)  # roots have the order of the numbers
        places = None if least else place_of_one(value, dim)
        if places is None:
            _, places = ranked(value, dim, 1, largest=not least, name="first place")
        return places.parts(lambda part: part.reshape(*part.shape[:2], *result.shape))

    return rule


def topk(args: Args, kwargs: Options, result: Result) -> list[Value] | None:
    """The rule of `topk`."""
    value = value_of(args[0])
    dim = get(args, kwargs, 2, "dim", -1)
    largest = bool(get(args, kwargs, 3, "largest", True))
    if not value.shape or not get(args, kwargs, 4, "sorted", True):
        return None
    values, places = ranked(value, dim, int(args[1]), largest=largest, name="place")
    return [values, places]


def sort_rule(args: Args, kwargs: Options, result: Result) -> list[Value] | None:
    """The rule of `sort`."""
    value = value_of(args[0])
    if not value.shape:
        return None
    numbers = [one for one in args[1:] if not isinstance(one, bool)]
    dim = numbers[0] if numbers else kwargs.get("dim", -1)
    flags = [one for one in args[1:] if isinstance(one, bool)]
    down = bool(flags[-1] if flags else kwargs.get("descending", False))
    stable = bool(kwargs.get("stable", False))
    name, along = "stable place" if stable else "sorted place", dims_of(value, dim)[0]
    return list(ranked(value, dim, value.shape[along], largest=down, name=name))


def cumulative_extreme(least: bool) -> Rule:
    """The rule of running extremes and their places."""

    def rule(args: Args, kwargs: Options, result: Result) -> list[Value]:
        value = value_of(args[0])
        operation = extremes.smallest if least else extremes.largest
        dim = dims_of(value, args[1])[0]
        found = running(operation, value, dim, result.dtype)
        places = arithmetic.atom(f"place of a running extreme {least}", found, value, dtype=torch.int64)
        return [found, places]

    return rule


def cumulative(operation: Callable[[Value, Value, torch.dtype], Value]) -> Rule:
    """The rule of the results of a fold along a dim."""

    def rule(args: Args, kwargs: Options, result: Result) -> Value:
        value = value_of(args[0])
        return running(operation, value, dims_of(value, args[1])[0], result.dtype) if value.shape else value

    return rule


def product_rule(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of `product`."""
    one, other = value_of(args[0]), value_of(args[1])
    vector = len(other.shape) == 1
    row = len(one.shape) == 1
    one = one.parts(lambda part: part.unsqueeze(-2)) if row else one
    other = other.parts(lambda part: part.unsqueeze(-1)) if vector else other
    found = matrix_product(one, other, result.dtype)
    return found.parts(lambda part: part.reshape(*part.shape[:2], *result.shape))


def add_product(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of `add_product`."""
    found = product_rule(args[1:3], {}, result)
    beta, alpha = kwargs.get("beta", 1), kwargs.get("alpha", 1)
    found = arithmetic.multiply(found, number(alpha), result.dtype) if alpha != 1 else found
    bias = value_of(args[0])
    bias = arithmetic.multiply(bias, number(beta), result.dtype) if beta != 1 else bias
    return arithmetic.add(bias, found, result.dtype)


def norm(args: Args, kwargs: Options, result: Result) -> Value | None:
    """The rule of `norm`."""
    value, order = value_of(args[0]), float(get(args, kwargs, 1, "ord", 2))
    dims, keep = dims_of(value, get(args, kwargs, 2, "dim")), bool(get(args, kwargs, 3, "keepdim", False))
    if order == 2:
        squares = arithmetic.multiply(value.plain(), value.plain(), _FLOAT)
        return arithmetic.root(summed(squares, dims, _FLOAT, keep=keep), result.dtype)
    if order == 1:
        return summed(absolute(value, _FLOAT), dims, result.dtype, keep=keep)
    if order == math.inf:
        return extreme(absolute(value, _FLOAT), dims, result.dtype, keep=keep, least=False)
    return None


def distances(args: Args, kwargs: Options, result: Result) -> Value | None:
    """The rule of `distances`."""
    one = value_of(args[0]).parts(lambda part: part.unsqueeze(-2))
    other = value_of(args[1]).parts(lambda part: part.unsqueeze(-3))
    order = float(get(args, kwargs, 2, "p", 2.0))
    gap = arithmetic.subtract(one, other, _FLOAT)
    return norm([gap, order, [-1], False], {}, result)


def any_rule(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of whether any truth value holds."""
    value = value_of(args[0])
    found = truth.invert(truth.as_bits(value))
    for dim in sorted(dims_of(value, get(args, kwargs, 1, "dim")), reverse=True):
        found = running(lambda one, other, _: truth.both(one, other), found, dim, torch.bool)
        found = found.parts(lambda part, d=dim: part.select(d + 2, -1))  # type: ignore[misc]
    return truth.invert(found).parts(lambda part: part.reshape(*part.shape[:2], *result.shape))


def split_gate(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of `split_gate`."""
    value = value_of(args[0])
    dim = dims_of(value, get(args, kwargs, 1, "dim", -1))[0] + 2
    one, other = (value.parts(lambda part, n=n: part.chunk(2, dim)[n]) for n in range(2))  # type: ignore[misc]
    return arithmetic.multiply(one, sigmoid(other, result.dtype), result.dtype)


def convolution(args: Args, kwargs: Options, result: Result) -> Value | None:
    """A convolution as a product of the windows and the weights; none of transposed ones."""
    value, weight, bias = value_of(args[0]), value_of(args[1]), args[2]
    stride, padding, dilation, transposed, _, groups = args[3:9]
    if transposed or len(value.shape) - 2 not in (1, 2) or value.batch * weight.batch != 1:
        return None
    flat = len(value.shape) == 3
    spatial = (1, value.shape[2]) if flat else value.shape[2:]
    kernel = (1, weight.shape[2]) if flat else weight.shape[2:]
    pairs = [list(one) * (1 if len(one) > 1 or flat else 2) for one in (stride, padding, dilation)]
    stride, padding, dilation = (
        [default, *one] if flat else one for one, default in zip(pairs, (1, 0, 1), strict=True)
    )
    count, channels = value.shape[:2]
    places = torch.arange(1, math.prod(value.shape) + 1, dtype=_FLOAT).reshape(count, channels, *spatial)
    windows = torch.nn.functional.unfold(places, *map(tuple, (kernel, dilation, padding, stride)))
    zero = number(0.0).parts(lambda part: part.reshape(part.shape[0], 1, 1))
    row = joined([zero, value.parts(lambda part: part.reshape(*part.shape[:2], -1))], 0, torch.cat)
    taken = windows.to(torch.int64)
    columns = row.parts(lambda part: part.index_select(2, taken.reshape(-1)).reshape(*part.shape[:2], *taken.shape))
    filters, size = weight.shape[0], math.prod(weight.shape[1:])
    columns = columns.parts(lambda part: part.reshape(*part.shape[:2], count, groups, size, -1))
    weights = weight.parts(lambda part: part.reshape(*part.shape[:2], 1, groups, filters // groups, size))
    weights = weights.parts(lambda part: part.expand(*part.shape[:2], count, *part.shape[3:]))
    found = matrix_product(weights, columns, result.dtype)
    found = found.parts(lambda part: part.reshape(*part.shape[:2], *result.shape))
    if bias is None:
        return found
    rank = len(result.shape) - 2
    return arithmetic.add(
        found, value_of(bias).parts(lambda part: part.reshape(*part.shape, *(1,) * rank)), result.dtype
    )


def windows_largest(args: Args, kwargs: Options, result: Result) -> list[Value] | None:
    """`max_pool2d_with_indices`, without a use for the places."""
    value = value_of(args[0])
    kernel = list(args[1])
    stride = list(args[2]) if len(args) > 2 and args[2] else kernel
    padding = list(args[3]) if len(args) > 3 else [0, 0]
    dilation = list(args[4]) if len(args) > 4 else [1, 1]
    if len(value.shape) not in (3, 4) or (len(args) > 5 and args[5]) or len(kernel) != 2:
        return None
    whole = value if len(value.shape) == 4 else value.parts(lambda part: part.unsqueeze(2))
    count, channels, height, width = whole.shape
    places = torch.arange(1, math.prod(whole.shape) + 1, dtype=_FLOAT).reshape(count * channels, 1, height, width)
    windows = torch.nn.functional.unfold(places, *map(tuple, (kernel, dilation, padding, stride)))
    low = number(-math.inf).parts(lambda part: part.reshape(part.shape[0], 1, 1))
    row = joined([low, whole.parts(lambda part: part.reshape(*part.shape[:2], -1))], 0, torch.cat)
    taken = windows.to(torch.int64)
    columns = row.parts(lambda part: part.index_select(2, taken.reshape(-1)).reshape(*part.shape[:2], *taken.shape))
    found = extreme(columns, [1], value.dtype, keep=False, least=False)
    found = found.parts(lambda part: part.reshape(*part.shape[:2], *result.shape))
    return [found, arithmetic.atom("place in a window", found, dtype=torch.int64)]
