"""Rules of operators that take each number alone, and of those that make constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from step_runtime.verification.exact import arithmetic, extremes, facts, truth
from step_runtime.verification.exact.formats import Rounding, rounded
from step_runtime.verification.exact.operands import Operand, Result, Rule, filling, value_of
from step_runtime.verification.exact.value import Size, Unknown, Value, aligned, broadcast, fixed, number, spread

_FLOAT = torch.float64
Args = Sequence[Operand]
Options = dict[str, Any]


def get(args: Args, kwargs: Options, place: int, name: str, default: Any = None) -> Any:
    """An operand by its place or its name."""
    return args[place] if len(args) > place else kwargs.get(name, default)


def binary(operation: Callable[[Value, Value, torch.dtype], Value]) -> Rule:
    """The rule of an operation on two numbers."""
    return lambda args, kwargs, result: operation(value_of(args[0]), value_of(args[1]), result.dtype)


def unary(operation: Callable[[Value, torch.dtype], Value]) -> Rule:
    """The rule of an operation on one number."""
    return lambda args, kwargs, result: operation(value_of(args[0]), result.dtype)


def scaled_sum(sign: int) -> Rule:
    """A sum or a difference, the second operand of which may be scaled by `alpha`."""

    def rule(args: Args, kwargs: Options, result: Result) -> Value:
        one, other = value_of(args[0]), value_of(args[1])
        alpha = get(args, kwargs, 2, "alpha", 1)
        if alpha != 1:
            other = arithmetic.multiply(other, number(alpha), result.dtype)
        return (arithmetic.add if sign > 0 else arithmetic.subtract)(one, other, result.dtype)

    return rule


def compared(test: Callable[[Value, Value], Value]) -> Rule:
    """The rule of a comparison."""
    return lambda args, kwargs, result: test(value_of(args[0]), value_of(args[1]))


def not_below(one: Value, other: Value) -> Value:
    """Whether the first is not below the second."""
    found = truth.invert(truth.above(other, one))
    if one.bits or other.bits:
        return found
    return replace(found, gap=arithmetic.subtract(one, other, _FLOAT).data.broadcast_to(found.data.shape))


def function(name: str) -> Rule:
    """A function of one number that is a free symbol of it."""

    def rule(args: Args, kwargs: Options, result: Result) -> Value:
        value = value_of(args[0])
        function = getattr(torch, name, None) or getattr(torch.special, name)
        found = arithmetic.atom(name, value, dtype=result.dtype)
        known = function(value.known)
        known = torch.where(known.isfinite(), known, torch.nan)
        return replace(found, known=known)

    return rule


def whole(name: Rounding) -> Rule:
    """The rule of rounding to whole numbers."""
    return lambda args, kwargs, result: rounded(name, value_of(args[0]))


def odd(name: str, *, even: bool = False) -> Rule:
    """A function of one number of which that of the opposite is the opposite, or the same."""
    own = function(name)

    def rule(args: Args, kwargs: Options, result: Result) -> Value:
        value = value_of(args[0])
        opposite = arithmetic.negative(value.plain())
        turned = (value.data[0] > opposite.data[0]).unsqueeze(0)
        lower = value.plain(
            data=torch.where(turned, opposite.data, value.data), known=torch.where(turned, opposite.known, value.known)
        )
        found: Value = own([lower], kwargs, result)
        nought = value.known == 0
        base = 1 if even else 0
        zero = nought & (value.data == 0).all(0, keepdim=True)
        if not even:
            back = arithmetic.negative(found)
            found = replace(
                found,
                data=torch.where(turned, back.data, found.data),
                known=torch.where(turned, back.known, found.known),
            )
        return replace(
            found, data=torch.where(zero, base, found.data), known=torch.where(zero, float(base), found.known)
        )

    return rule


def sigmoid(value: Value, dtype: torch.dtype) -> Value:
    """The inverse of 1 and the exponential of the opposite; 1 without that of the number, where some are infinite."""
    one = number(1.0)
    if bool(arithmetic.infinite(value).any()):
        powers = arithmetic.add(one, arithmetic.exponential(value, dtype), dtype)
        return arithmetic.subtract(one, arithmetic.reciprocal(powers, dtype), dtype)
    powers = arithmetic.add(one, arithmetic.exponential(arithmetic.negative(value), dtype), dtype)
    found = arithmetic.divide(one, powers, dtype)
    if value.logs is None and not value.lower:
        facts.set_positive(found.data)
    return found


def tanh(value: Value, dtype: torch.dtype) -> Value:
    """The rule of `tanh`."""
    one, twice = number(1.0), arithmetic.exponential(arithmetic.add(value, value, dtype), dtype)
    return arithmetic.divide(arithmetic.subtract(twice, one, dtype), arithmetic.add(twice, one, dtype), dtype)


def absolute(value: Value, dtype: torch.dtype) -> Value:
    """The larger of a number and its opposite."""
    found = extremes.largest(value, arithmetic.negative(value), dtype)
    return replace(found, sign=torch.where(value.signs.abs() == 2, 2, 1).to(torch.int8))


def sign_rule(value: Value, dtype: torch.dtype) -> Value:
    """The rule of `sign`."""
    above, below = truth.above_zero(value), truth.above_zero(arithmetic.negative(value))
    return replace(arithmetic.subtract(above, below, dtype), masks=truth.of_either(above.masks, below.masks))


def relu(value: Value, dtype: torch.dtype) -> Value:
    """The rule of `relu`."""
    return extremes.largest(value, number(0.0), dtype)


def clamp(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of `clamp`."""
    value = value_of(args[0])
    low, high = get(args, kwargs, 1, "min"), get(args, kwargs, 2, "max")
    if low is not None:
        value = extremes.largest(value, value_of(low), result.dtype)
    return value if high is None else extremes.smallest(value, value_of(high), result.dtype)


def whole_quotient(args: Args, kwargs: Options, result: Result) -> Value | None:
    """The rule of `whole_quotient`."""
    mode = kwargs.get("rounding_mode")
    one, other = value_of(args[0]), value_of(args[1])
    quotient = arithmetic.divide(one, other, _FLOAT)
    if mode is None:
        return quotient
    found = replace(rounded(mode, replace(quotient, dtype=_FLOAT)), dtype=result.dtype)
    if (bounds := one.bounds) is None or result.dtype.is_floating_point:
        return found
    most = max(map(abs, bounds)) + 1
    return replace(found, range=(-most, most))


def remains(mode: Rounding) -> Rule:
    """The rule of `remainder` or `fmod`, by how quotients are rounded."""

    def rule(args: Args, kwargs: Options, result: Result) -> Value:
        one, other = aligned(value_of(args[0]), value_of(args[1]))
        whole = rounded(mode, replace(arithmetic.divide(one, other, _FLOAT), dtype=_FLOAT))
        found = arithmetic.subtract(one, arithmetic.multiply(whole, other, _FLOAT), result.dtype)
        if (bounds := other.bounds) is None or result.dtype.is_floating_point:
            return found
        most = max(map(abs, bounds)) - 1
        return replace(found, range=(-most if mode == "trunc" or bounds[0] < 0 else 0, most))

    return rule


def where_rule(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of `where`."""
    return truth.choose(value_of(args[0]), value_of(args[1]), value_of(args[2]), result.dtype)


def masked_fill(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of `masked_fill`."""
    return truth.choose(value_of(args[1]), filling(args[2], result.dtype), value_of(args[0]), result.dtype)


def full(number: Any, result: Result) -> Value:
    """A tensor of one number."""
    if isinstance(number, Value):
        return spread(number, number.batch, result.shape)
    return fixed(torch.full(result.shape, number, dtype=result.dtype))


def of_size(args: Args, kwargs: Options, result: Result) -> Value:
    """A tensor of one number, by its size or a tensor like it."""
    return full(args[1], result)


def arange(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of `arange`."""
    if any(isinstance(one, Value) for one in args):
        raise Unknown("a range whose ends depend on data")
    numbers = [*args]
    start, end = (0, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
    step = numbers[2] if len(numbers) > 2 else kwargs.get("step", 1)
    return fixed(torch.arange(start, end, step, dtype=result.dtype))


def gelu(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of `gelu`."""
    value, one, dtype = value_of(args[0]), number(1.0), result.dtype
    half = arithmetic.multiply(value, number(0.5), dtype)
    if get(args, kwargs, 1, "approximate", "none") == "tanh":
        cube = arithmetic.multiply(arithmetic.multiply(value, value, dtype), value, dtype)
        inner = arithmetic.add(value, arithmetic.multiply(cube, number(0.044715), dtype), dtype)
        curve = tanh(arithmetic.multiply(inner, number(math.sqrt(2 / math.pi)), dtype), dtype)
    else:
        curve = odd("erf")([arithmetic.multiply(value, number(math.sqrt(0.5)), dtype)], {}, result)
    return arithmetic.multiply(half, arithmetic.add(one, curve, dtype), dtype)


def softplus(args: Args, kwargs: Options, result: Result) -> Value | None:
    """The rule of `softplus`."""
    if len(args) > 1 or kwargs:
        return None
    return arithmetic.logarithm(
        arithmetic.add(number(1.0), arithmetic.exponential(value_of(args[0]), _FLOAT), _FLOAT), _FLOAT
    )


def log_sigmoid(args: Args, kwargs: Options, result: Result) -> Any:
    """The rule of `log_sigmoid`."""
    found = arithmetic.logarithm(sigmoid(value_of(args[0]), _FLOAT), _FLOAT)
    return [found, found] if len(result.shapes) > 1 else found


def log1p(value: Value, dtype: torch.dtype) -> Value:
    """The rule of `log1p`."""
    return arithmetic.logarithm(arithmetic.add(number(1.0), value, dtype), dtype)


def xlogy(one: Value, other: Value, dtype: torch.dtype) -> Value:
    """The rule of `xlogy`, which is 0 for 0 and any number.

    Raises:
        Unknown: The logarithm may be undefined.
    """
    if bool((other.signs < 2).any()):
        raise Unknown("xlogy of what may not be above 0")
    return arithmetic.multiply(one, arithmetic.logarithm(other, dtype), dtype)


def logaddexp(one: Value, other: Value, dtype: torch.dtype) -> Value:
    """The logarithm of the sum of two exponentials."""
    total = arithmetic.add(arithmetic.exponential(one, dtype), arithmetic.exponential(other, dtype), dtype)
    return arithmetic.logarithm(total, dtype)


def expm1(value: Value, dtype: torch.dtype) -> Value:
    """The rule of `expm1`."""
    return arithmetic.subtract(arithmetic.exponential(value, dtype), number(1.0), dtype)


def lerp(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of `lerp`."""
    start, end, weight = map(value_of, args[:3])
    gap = arithmetic.subtract(end, start, result.dtype)
    found = arithmetic.add(start, arithmetic.multiply(weight, gap, result.dtype), result.dtype)
    between = (weight.known >= 0) & (weight.known <= 1)
    least = torch.minimum(*broadcast(start.signs, end.signs))
    return replace(found, sign=torch.where(between & (least > 0), least, found.signs))


def scaled_term(operation: Callable[[Value, Value, torch.dtype], Value]) -> Rule:
    """The rule of a sum with a scaled product or quotient."""

    def rule(args: Args, kwargs: Options, result: Result) -> Value:
        term = operation(value_of(args[1]), value_of(args[2]), result.dtype)
        value = kwargs.get("value", 1)
        term = arithmetic.multiply(term, number(value), result.dtype) if value != 1 else term
        return arithmetic.add(value_of(args[0]), term, result.dtype)

    return rule


def truth_rule(operation: Callable[[Value, Value], Value]) -> Rule:
    """The rule of an operation on truth values."""
    return lambda args, kwargs, result: operation(truth.as_bits(value_of(args[0])), truth.as_bits(value_of(args[1])))


def differ(one: Value, other: Value) -> Value:
    """The rule of `differ`."""
    return truth.either(truth.both(one, truth.invert(other)), truth.both(truth.invert(one), other))


def never(args: Args, kwargs: Options, result: Result) -> Value:
    """Whether numbers are NaN: data are not."""
    value = value_of(args[0])
    return Value(torch.zeros_like(value.data), torch.zeros_like(value.known), torch.bool, bits=True, size=Size())


def infinite_rule(args: Args, kwargs: Options, result: Result) -> Value:
    """Whether numbers are infinite, as data are not."""
    return fixed(value_of(args[0]).known[0].isinf()).parts(lambda part: part.squeeze(1))
