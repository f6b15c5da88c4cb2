"""What PyTorch's conversions between types of elements do to arrays of sources: known constants are converted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pipeline.lms.embedded.formulas.formats import INTEGERS, TO
from pipeline.lms.embedded.influence.arrays import Array, Unread, Word, as_array, pointwise, truths
from pipeline.lms.embedded.influence.value_calls import mixed


def converted(data: Any, *kinds: Any, dtype: Any = None, **_: Any) -> Array:
    """As `Tensor.to`, for a type, a tensor of a type, or a device."""
    array = as_array(data)
    kind = next((one for one in (dtype, *kinds) if isinstance(one, Word)), None)
    if kind is None:
        return replace(array, truth=array.truth and not kinds)
    return _conversion(kind.name)(array)


def _conversion(kind: str) -> Callable[..., Array]:
    def convert(data: Any, *_: Any, **__: Any) -> Array:
        array = as_array(data)
        if kind == "bool":
            return array if array.truth else truths(pointwise(lambda value: value != 0, array, op="is true"))
        op = "same" if array.truth else TO + kind
        return pointwise(np.trunc if kind in INTEGERS else np.positive, array, op=op)

    return convert


def reinterpreted(data: Array, kind: Word) -> Array:
    """As `Tensor.view` of a type of the same size as the tensor's, which is taken to be one of 32 bits.

    Raises:
        Unread: It is of another size.
    """
    if kind.name not in _WORDS:
        raise Unread("bits in numbers of another size")
    return mixed(data)


_NUMBER_TYPES = (
    "float",
    "double",
    "half",
    "bfloat16",
    "int",
    "long",
    "short",
    "char",
    "byte",
    "bool",
    "cfloat",
    "cdouble",
)
_WORDS = frozenset(("int32", "float32", "int", "float", "uint32"))
_FLOATS = {"float64": np.float64, "double": np.float64, "float16": np.float16, "half": np.float16}
CALLS: dict[str, Callable[..., Any]] = {
    "to": converted, "type": converted,
    "type_as": lambda data, other: converted(data, Word("bool" if other.truth else "float")),
    "finfo": lambda kind=None: np.finfo(_FLOATS.get(getattr(kind, "name", ""), np.float32)),
    "iinfo": lambda kind=None: np.iinfo(getattr(kind, "name", "int64")),
    **{name: _conversion(name) for name in _NUMBER_TYPES},
}  # fmt: skip
"""The calls by their names."""
