"""Calls an author's function on one element, and holds what it returns to its declaration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from step_runtime.errors import TaskCodeError
from step_runtime.functions import Fn
from step_runtime.shapes import Sizes, evaluate
from step_runtime.types import DType, Element, components_of, layout

Data: TypeAlias = tuple[Tensor, ...]
"""One tensor per tuple component."""

Watch: TypeAlias = Callable[[str, str], None]
"""`watch(what, key)` is called before an author's code runs: what it is, for people, and a key that tells apart all
that may run otherwise. It may raise `RunError`, so that the code does not run."""


def element_layout(element: Element, sizes: Sizes) -> tuple[int, ...]:
    """The torch shape of one element at the sizes given."""
    return tuple(evaluate(dim, sizes) for dim in layout(element))


def apply(fn: Fn, element: Sequence[Sequence[Tensor]], sizes: Sizes, dtype: torch.dtype | None) -> Data:
    """What `fn` makes of one element (for a stateful one: of a state and an element), in `dtype` if one is given.

    Raises:
        TaskCodeError: the function failed, or returned something other than it declares.
    """
    return _checked(fn, _call(fn, fn.apply, *(list(arg) for arg in element)), fn.output, sizes, dtype, "apply")


def initial(fn: Fn, sizes: Sizes, dtype: torch.dtype | None) -> Data:
    """`fn`'s initial state, in `dtype` if one is given.

    Raises:
        TaskCodeError: as for `apply`.
    """
    return _checked(fn, _call(fn, fn.getInit), fn.output, sizes, dtype, "getInit")


def _call(fn: Fn, method: Callable[..., Sequence[Tensor]], *args: list[Tensor]) -> Sequence[Tensor]:
    try:
        return method(*args)
    except TaskCodeError:
        raise
    except Exception as error:
        raise TaskCodeError(f"function {fn.label} raised {type(error).__name__}: {error}") from error


def _checked(fn: Fn, result: object, output: DType, sizes: Sizes, dtype: torch.dtype | None, what: str) -> Data:
    components = components_of(output)
    if not isinstance(result, list | tuple):
        raise TaskCodeError(
            f"function {fn.label}: {what} returned {type(result).__name__}; "
            f"expected a list of {len(components)} tensors, one per component of {output}"
        )
    if len(result) != len(components):
        raise TaskCodeError(
            f"function {fn.label}: {what} returned {len(result)} components; "
            f"expected {len(components)}, one per component of {output}"
        )
    who = f"function {fn.label}: component"
    return tuple(
        _tensor(value, element_layout(element, sizes), dtype, f"{who} {index} of {what}")
        for index, (value, element) in enumerate(zip(result, components, strict=True))
    )


def _tensor(value: object, expected: tuple[int, ...], dtype: torch.dtype | None, who: str) -> Tensor:
    if not isinstance(value, Tensor):
        if not isinstance(value, int | float):
            raise TaskCodeError(f"{who} is a {type(value).__name__}; expected a tensor of shape {expected}")
        value = torch.tensor(float(value))
    if tuple(value.shape) != expected:
        raise TaskCodeError(f"{who} has shape {tuple(value.shape)}; expected {expected}")
    return value if dtype is None or value.dtype == dtype else value.to(dtype)
