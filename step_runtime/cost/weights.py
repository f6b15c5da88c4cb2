"""What torch's operators count as: the table of operations.

An operator is counted by the numbers that it makes, or by those that it reads (in which case the table has a pair: for
each number read, and for each number made). A matrix product is 2 for each product that it adds up. Operators that only
move or name numbers are free.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

Count = Annotated[int, Field(strict=True, ge=0)]
Weight: TypeAlias = Count | tuple[Count, Count]
"""Operations for each number made, or for each number read and each number made."""

MATMUL, ELEMENTWISE, OTHER = "matmul", "elementwise", "other"
"""Keys of the table for operators without an entry of their own: products of matrices (for each product that is added
up), operators that compute each number from one number of every operand, and all others (for each number read)."""

_FOUR = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "div", "elu", "erf", "erfc", "exp",
    "exp2", "expm1", "floor_divide", "fmod", "gelu", "hardsigmoid", "log", "log10", "log1p", "log2", "logaddexp",
    "logaddexp2", "mish", "pow", "reciprocal", "remainder", "rsqrt", "sigmoid", "silu", "sin", "sinh", "softplus",
    "sqrt", "tan", "tanh",
)  # fmt: skip
_FREE = (
    "_local_scalar_dense", "_reshape_copy", "_to_copy", "_unsafe_view", "alias", "arange", "cat", "clone",
    "constant_pad_nd", "copy", "diag_embed", "embedding", "empty", "empty_like", "eye", "fill", "flip", "full",
    "full_like", "gather", "index", "index_fill", "index_put", "index_select", "lift", "lift_fresh", "linspace",
    "masked_fill", "masked_select", "new_empty", "new_full", "new_ones", "new_zeros", "ones", "ones_like", "repeat",
    "repeat_interleave", "roll", "scalar_tensor", "scatter", "select_scatter", "slice_scatter",
    "split_with_sizes_copy", "stack", "tril", "triu", "unfold_copy", "zeros", "zeros_like",
)  # fmt: skip
_READING: dict[str, Weight] = {
    "_log_softmax": (8, 4),  # max, subtract, exp, add, subtract; log
    "_softmax": (11, 0),  # max, subtract, exp, add, divide
    "linalg_vector_norm": (2, 4),
    "logcumsumexp": (8, 4),
    "logsumexp": (7, 4),
    "mean": (1, 4),
    "native_group_norm": (9, 0),
    "native_layer_norm": (9, 0),  # mean 1, square of the difference and its sum 3, normalize 5
    "norm": (2, 4),
    "std": (3, 8),
    "var": (3, 4),
    "var_mean": (3, 4),
}

DEFAULT_WEIGHTS: dict[str, Weight] = {
    MATMUL: 2,
    ELEMENTWISE: 1,
    OTHER: (1, 0),
    **dict.fromkeys(_FOUR, 4),
    **dict.fromkeys(_FREE, 0),
    **_READING,
}
"""The default table; `matmul`, `elementwise` and `other` are the classes of operators without an entry."""
