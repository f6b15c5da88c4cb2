"""The operators of torch that are followed: their exact meaning, and for which types and operands it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from step_runtime.verification.exact import (
    along,
    angles,
    arithmetic,
    complexes,
    extremes,
    formats,
    places,
    pointwise,
    truth,
)  # fmt: skip
from step_runtime.verification.exact.operands import Operand, Result, Rule, value_of
from step_runtime.verification.exact.operators import Entry
from step_runtime.verification.exact.residues import CHANNELS
from step_runtime.verification.exact.value import NAN, Unknown, Value, fixed, fresh, number

_FLOAT = torch.float64


def cast_rule(args: Sequence[Operand], kwargs: dict[str, Any], result: Result) -> Value:
    """The rule of conversions.

    Raises:
        Unknown: What may be undefined becomes a whole number or a truth value.
    """
    value = value_of(args[0])
    if (value.partial or value.lower) and not result.dtype.is_floating_point:
        raise Unknown("a conversion of what may be undefined")
    return formats.cast(value, result.dtype)


_SAME = "f>f i>i b>b"


def _entries(
    overloads: str, types: str, rules: dict[str, Rule], *, tells: bool = False, exact: bool = False
) -> dict[str, Entry]:
    return {name: Entry(rule, types, overloads, tells, exact) for name, rule in rules.items()}


def _unset(args: object, kwargs: object, result: Result) -> Value:
    """What happens to be in memory."""
    like = torch.zeros(CHANNELS, 1, *result.shape, dtype=torch.int64)
    known = torch.full_like(like[:1], NAN, dtype=_FLOAT)
    return Value(fresh(like), known, result.dtype, partial=True, broken=True)


TABLE: dict[str, Entry] = {
    # Of booleans, torch's sum is their disjunction.
    "add": Entry(pointwise.scaled_sum(1), "f>f i>i i>f b>i b>f", "Tensor Scalar"),
    "sub": Entry(pointwise.scaled_sum(-1), "f>f i>i i>f", "Tensor Scalar"),
    "mul": Entry(pointwise.binary(arithmetic.multiply), "f>f i>i i>f b>b b>i b>f", "Tensor Scalar"),
    "div": Entry(pointwise.whole_quotient, "f>f i>f b>f", "Tensor Scalar Tensor_mode Scalar_mode"),
    "floor_divide": Entry(
        lambda args, kwargs, result: pointwise.whole_quotient(args, {"rounding_mode": "floor"}, result),
        "f>f i>i",
        "default Scalar",
    ),
    "remainder": Entry(pointwise.remains("floor"), "f>f i>i i>f", "Tensor Scalar"),
    "fmod": Entry(pointwise.remains("trunc"), "f>f i>i i>f", "Tensor Scalar"),
    "pow": Entry(pointwise.binary(arithmetic.power), "f>f i>f", "Tensor_Scalar Tensor_Tensor Scalar"),
    **_entries(
        "default",
        "f>f i>i",
        {
            "neg": pointwise.unary(lambda value, dtype: arithmetic.negative(value)),
            "abs": pointwise.unary(pointwise.absolute),
            "relu": pointwise.unary(pointwise.relu),
        },
    ),
    **_entries(
        "default",
        "f>f i>f b>f",
        {
            "reciprocal": pointwise.unary(arithmetic.reciprocal),
            "exp": pointwise.unary(arithmetic.exponential),
            "exp2": pointwise.unary(lambda value, dtype: arithmetic.power(number(2.0), value, dtype)),
            "expm1": pointwise.unary(pointwise.expm1),
            "log": pointwise.unary(arithmetic.logarithm),
            "log1p": pointwise.unary(pointwise.log1p),
            "sqrt": pointwise.unary(arithmetic.root),
            "rsqrt": pointwise.unary(lambda value, dtype: arithmetic.reciprocal(arithmetic.root(value, dtype), dtype)),
            "sigmoid": pointwise.unary(pointwise.sigmoid),
            "tanh": pointwise.unary(pointwise.tanh),
            "sin": angles.circular("sin"),
            "cos": angles.circular("cos"),
            "erf": pointwise.odd("erf"),
            "atan": pointwise.odd("atan"),
            "sinh": pointwise.odd("sinh"),
            "cosh": pointwise.odd("cosh", even=True),
        },
    ),
    **_entries(
        "default",
        "f>f",
        {
            "silu": pointwise.unary(
                lambda value, dtype: arithmetic.multiply(value, pointwise.sigmoid(value, dtype), dtype)
            ),
            "gelu": pointwise.gelu,
            "softplus": pointwise.softplus,
            "log_sigmoid_forward": pointwise.log_sigmoid,
            "hardtanh": lambda args, kwargs, result: pointwise.clamp(
                [args[0], *(args[1:3] or (-1.0, 1.0))], {}, result
            ),
            "logaddexp": pointwise.binary(pointwise.logaddexp),
            "glu": along.split_gate,
            "logcumsumexp": along.logcumsumexp,
            "logsumexp": along.logsumexp,
            "_softmax": along.softmax,
            "_log_softmax": along.log_softmax,
            "addmm": along.add_product,
            "addmv": along.add_product,
            "baddbmm": along.add_product,
            "convolution": along.convolution,
            "_cdist_forward": along.distances,
            "linalg_vector_norm": along.norm,
            "max_pool2d_with_indices": along.windows_largest,
            "addcmul": pointwise.scaled_term(arithmetic.multiply),
            "addcdiv": pointwise.scaled_term(arithmetic.divide),
        },
    ),
    **_entries(
        "default",
        "f>c",
        {
            "_fft_r2c": complexes.real_fft,
            "view_as_complex": complexes.complex_view,
            "complex": complexes.complex_rule,
            "polar": complexes.polar,
        },
    ),
    **_entries("default", "f>f i>i", dict.fromkeys(("mm", "bmm", "mv", "dot"), along.product_rule)),
    "xlogy": Entry(pointwise.binary(pointwise.xlogy), "f>f", "Tensor Scalar_Other Scalar_Self"),
    "lerp": Entry(pointwise.lerp, "f>f", "Tensor Scalar"),
    "clamp": Entry(pointwise.clamp, "f>f i>i i>f", "default Tensor"),
    "clamp_min": Entry(pointwise.clamp, "f>f", "Tensor"),
    **_entries(
        "default",
        _SAME,
        {"maximum": pointwise.binary(extremes.largest), "minimum": pointwise.binary(extremes.smallest)},
        exact=True,
    ),
    **_entries(
        "default",
        "f>f i>i",
        {"fmax": pointwise.binary(extremes.largest), "fmin": pointwise.binary(extremes.smallest)},
        tells=True,
    ),
    "where": Entry(pointwise.where_rule, _SAME, "self ScalarOther ScalarSelf Scalar", exact=True),
    "masked_fill": Entry(pointwise.masked_fill, _SAME, "Scalar Tensor", exact=True),
    **_entries("default", "f>f i>i", {name: pointwise.whole(name) for name in ("floor", "ceil", "trunc", "round")}),
    **_entries("default", "f>f i>i", {"sign": pointwise.unary(pointwise.sign_rule)}, tells=True),
    **_entries(
        "Tensor Scalar",
        "f>b i>b b>b",
        {
            "gt": pointwise.compared(truth.above),
            "lt": pointwise.compared(lambda one, other: truth.above(other, one)),
            "ge": pointwise.compared(pointwise.not_below),
            "le": pointwise.compared(lambda one, other: pointwise.not_below(other, one)),
            "eq": pointwise.compared(truth.equal),
            "ne": pointwise.compared(lambda one, other: truth.invert(truth.equal(one, other))),
        },
        tells=True,
    ),
    **_entries(
        "default",
        "f>b i>b b>b",
        {
            "logical_not": lambda args, kwargs, result: truth.invert(truth.as_bits(value_of(args[0]))),
            "logical_and": pointwise.truth_rule(truth.both),
            "logical_or": pointwise.truth_rule(truth.either),
            "logical_xor": pointwise.truth_rule(pointwise.differ),
            "isnan": pointwise.never,
            "isinf": pointwise.infinite_rule,
        },
        tells=True,
    ),
    "bitwise_not": Entry(lambda args, kwargs, result: truth.invert(value_of(args[0])), "b>b", "default"),
    **_entries(
        "Tensor Scalar",
        "b>b",
        {
            "bitwise_and": pointwise.truth_rule(truth.both),
            "bitwise_or": pointwise.truth_rule(truth.either),
            "bitwise_xor": pointwise.truth_rule(pointwise.differ),
        },
    ),
    "any": Entry(along.any_rule, "f>b i>b b>b", "default dim dims", tells=True),
    # Sums of numbers that torch cuts off or tests first are others.
    "sum": Entry(along.sum_rule, "f>f i>i i>f b>i b>f", "default dim_IntList"),
    "mean": Entry(along.mean, "f>f i>f", "default dim"),
    "prod": Entry(along.prod, "f>f i>i i>f b>i", "default dim_int"),
    "cumsum": Entry(along.cumulative(arithmetic.add), "f>f i>i i>f b>i", "default"),
    "cumprod": Entry(along.cumulative(arithmetic.multiply), "f>f i>i i>f b>i", "default"),
    **_entries(
        "correction dim default",
        "f>f",
        {
            "var": along.var,
            "var_mean": along.var_mean,
            "std": lambda args, kwargs, result: arithmetic.root(along.var(args, kwargs, result), result.dtype),
        },
    ),
    **_entries(
        "default",
        "f>f i>i",
        {"amax": along.extremes_rule(least=False), "amin": along.extremes_rule(least=True)},
        exact=True,
    ),
    **_entries(
        "default dim",
        "f>f i>i",
        {"max": along.extreme_with_place(least=False), "min": along.extreme_with_place(least=True)},
        tells=True,
        exact=True,
    ),
    **_entries(
        "default", "f>i i>i", {"argmax": along.argument(least=False), "argmin": along.argument(least=True)}, tells=True
    ),
    "topk": Entry(along.topk, "f>f i>i", "default", tells=True, exact=True),
    "sort": Entry(along.sort_rule, "f>f i>i", "default stable", tells=True, exact=True),
    **_entries(
        "default",
        "f>f i>i",
        {"cummax": along.cumulative_extreme(least=False), "cummin": along.cumulative_extreme(least=True)},
        tells=True,
    ),
    "gather": Entry(places.gather, "f>f i>i i>b", "default"),
    "scatter": Entry(places.scatter, "f>f i>i i>b", "src value"),
    "index": Entry(places.index_rule, "f>f i>i i>b", "Tensor"),
    "index_select": Entry(places.index_select, "f>f i>i i>b", "default"),
    "embedding": Entry(places.embedding, "f>f", "default"),
    "full": Entry(pointwise.of_size, "->f ->i ->b", "default"),
    "full_like": Entry(pointwise.of_size, "f>f f>i f>b i>f i>i i>b b>f b>i b>b", "default"),
    "scalar_tensor": Entry(lambda args, kwargs, result: pointwise.full(args[0], result), "->f ->i", "default"),
    "arange": Entry(pointwise.arange, "->f ->i", "default start start_step"),
    "tril_indices": Entry(lambda args, kwargs, result: fixed(torch.tril_indices(*args)), "->i", "default"),
    "triu_indices": Entry(lambda args, kwargs, result: fixed(torch.triu_indices(*args)), "->i", "default"),
    "empty_permuted": Entry(_unset, "->f", "default"),
    "_to_copy": Entry(cast_rule, "f>f f>i f>b i>f i>i i>b b>f b>i", "default", exact=True),
    "to": Entry(cast_rule, "f>f i>i i>f b>f", "default dtype", exact=True),
}
