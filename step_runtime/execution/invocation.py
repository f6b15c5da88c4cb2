"""Calls an author's function on one element, and checks its result against its declaration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import torch
from torch import Tensor

from step_runtime.base.errors import TaskCodeError, describe_error, quantity
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import INNERMOST_FIRST, Sizes, evaluate, is_reversed
from step_runtime.base.types import DType, Element, components_of, layout
from step_runtime.execution.number_formats import conversion_problem, element_type

Data: TypeAlias = tuple[Tensor, ...]
"""One tensor per tuple component."""

_PLAIN = (Tensor, torch.nn.Parameter)
"""Not their subclasses, which may hold anything: a mask, or no data."""

BeforeRun: TypeAlias = Callable[[str, str], None]
"""`before_run(what, key)` is called before an author's code runs: `what` describes it for people, and `key` is equal
only for runs of the same code on the same input. It may raise `RunError`, so that the code does not run."""


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Makes `dtype` the default floating type of tensors that code creates, and disables gradients."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_default_dtype(before)


def element_layout(element: Element, sizes: Sizes) -> tuple[int, ...]:
    """The torch shape of one element at the sizes given."""
    return tuple(evaluate(dim, sizes) for dim in layout(element))


def apply(fn: Fn, element: Sequence[Sequence[Tensor]], sizes: Sizes, dtype: torch.dtype | None) -> Data:
    """The value of `fn` on one element (if stateful, on a state and an element), in the formats of its output.

    `dtype` is the type that holds fp32; None keeps what the function gives.
    """
    return _checked(fn, _call(fn, fn.apply, *(list(arg) for arg in element)), fn.output, sizes, dtype, "apply")


def initial(fn: Fn, sizes: Sizes, dtype: torch.dtype | None) -> Data:
    """`fn`'s initial state, converted as by `apply`."""
    return _checked(fn, _call(fn, fn.getInit), fn.output, sizes, dtype, "getInit")


def _call(fn: Fn, method: Callable[..., Sequence[Tensor]], *args: list[Tensor]) -> Sequence[Tensor]:
    try:
        return method(*args)
    except (TaskCodeError, KeyboardInterrupt):
        raise
    except BaseException as error:
        # All exceptions: an author's `sys.exit()` is a failure like any other.
        raise TaskCodeError(f"function {fn.label} raised {describe_error(error)}") from error


def _checked(fn: Fn, result: object, output: DType, sizes: Sizes, dtype: torch.dtype | None, what: str) -> Data:
    components = components_of(output)
    if not isinstance(result, list | tuple):
        raise TaskCodeError(
            f"function {fn.label}: {what} returned {type(result).__name__}; "
            f"expected a list of {quantity(len(components), 'tensor')}, one per component of {output}"
        )
    if len(result) != len(components):
        raise TaskCodeError(
            f"function {fn.label}: {what} returned {quantity(len(result), 'component')}; "
            f"expected {len(components)}, one per component of {output}"
        )
    who = f"function {fn.label}: component"
    return tuple(
        _tensor(value, element, element_layout(element, sizes), dtype, f"{who} {index} of {what}")
        for index, (value, element) in enumerate(zip(result, components, strict=True))
    )


def _tensor(value: object, element: Element, expected: tuple[int, ...], dtype: torch.dtype | None, who: str) -> Tensor:
    if not isinstance(value, Tensor):
        if not isinstance(value, int | float):
            raise TaskCodeError(f"{who} is a {type(value).__name__}; expected a tensor of shape {expected}")
        value = _number(value, element, who)
    problem = unsupported(value) or conversion_problem(value, element.format)
    if problem is not None:
        raise TaskCodeError(f"{who}: {problem}")
    if tuple(value.shape) != expected:
        hint = f"; {INNERMOST_FIRST}" if is_reversed(value.shape, expected) else ""
        raise TaskCodeError(f"{who} has shape {tuple(value.shape)}; expected {expected}{hint}")
    if element.format.wide and dtype is None:
        return value
    wanted = element_type(element, dtype or value.dtype)
    return value if value.dtype == wanted else value.to(wanted)


def _number(value: float, element: Element, who: str) -> Tensor:
    try:
        return torch.tensor(float(value) if element.format.kind == "float" else value)
    except Exception as error:
        raise TaskCodeError(f"{who} cannot be converted to a number: {describe_error(error)}") from error


def unsupported(value: Tensor) -> str | None:
    """The reason why the simulator can't compute with a tensor; None if it can."""
    if type(value) not in _PLAIN:
        found = f"a {type(value).__name__}"
    elif value.layout is not torch.strided or value.is_nested:
        found = "a nested tensor" if value.is_nested else f"the layout {value.layout}"
    elif not value.is_cpu:
        found = f"the device {value.device}"
    elif value.is_quantized or value.is_complex():
        found = f"the dtype {value.dtype}"
    else:
        return None
    return f"expected a dense tensor of real numbers on the CPU, found {found}"
