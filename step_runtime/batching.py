"""Applies functions to many elements at once.

Functions are written for one element. Where `torch.func.vmap` takes a function, it runs once over a whole
batch; where it refuses (a data-dependent `if`, `.item()`) or would differ from element-wise execution, the
function runs element by element. Which of the two is found once per function, by trying on its first batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from step_runtime.errors import RunError, TaskCodeError
from step_runtime.functions import Fn
from step_runtime.shapes import Sizes, evaluate
from step_runtime.types import DType, Element, components_of, layout

Data: TypeAlias = tuple[Tensor, ...]
"""One tensor per tuple component."""

_PROBED = 3
"""Elements of a first batch that are also computed one by one, to hold vmap to them."""


def element_layout(element: Element, sizes: Sizes) -> tuple[int, ...]:
    """The torch shape of one element at the sizes given."""
    return tuple(evaluate(dim, sizes) for dim in layout(element))


class Applier:
    """Runs functions over batches in one floating type; remembers per function whether vmap takes it.

    Args:
        dtype: what every output is cast to; None keeps what a function returns.
        deadline: `time.monotonic()` past which `RunError` (code `time-limit`) is raised; None for no limit.
    """

    def __init__(self, dtype: torch.dtype | None = None, deadline: float | None = None) -> None:
        self.dtype = dtype
        self.deadline = deadline
        self._vmapped: dict[Fn, bool] = {}

    def initial(self, fn: Fn, batch: int, sizes: Sizes) -> Data:
        """`fn`'s initial state for `batch` elements, each component `(batch, *layout)`."""
        state = self._checked(fn, _call(fn, fn.getInit), fn.output, sizes, what="getInit")
        return tuple(part.expand(batch, *part.shape) for part in state)

    def map(self, fn: Fn, inputs: Data, sizes: Sizes) -> Data:
        """`fn` on each of `(batch, *layout)` elements."""
        return self._run(fn, (inputs,), sizes)

    def step(self, fn: Fn, state: Data, inputs: Data, sizes: Sizes) -> Data:
        """One step of a fold: `fn` on `(batch, *layout)` states and elements."""
        return self._run(fn, (state, inputs), sizes)

    def _run(self, fn: Fn, args: tuple[Data, ...], sizes: Sizes) -> Data:
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise RunError("time-limit", f"the run took longer than its limit; it had come to function {fn.label}")
        batch = args[0][0].shape[0]
        if batch == 0:
            return self._empty(fn, args, sizes)
        if fn not in self._vmapped:
            return self._probe(fn, args, batch, sizes)
        return self._batched(fn, args, sizes) if self._vmapped[fn] else self._one_by_one(fn, args, batch, sizes)

    def _empty(self, fn: Fn, args: tuple[Data, ...], sizes: Sizes) -> Data:
        dtype = self.dtype or args[-1][0].dtype
        return tuple(torch.zeros((0, *element_layout(part, sizes)), dtype=dtype) for part in components_of(fn.output))

    def _probe(self, fn: Fn, args: tuple[Data, ...], batch: int, sizes: Sizes) -> Data:
        few = min(batch, _PROBED)
        some = tuple(tuple(part[:few] for part in arg) for arg in args)
        exact = self._one_by_one(fn, some, few, sizes)
        try:
            # Clones, as a function that writes into its input would spoil a stream that others share.
            result = self._batched(fn, tuple(tuple(part.clone() for part in arg) for arg in args), sizes)
            same = all(torch.allclose(r[:few], e, equal_nan=True) for r, e in zip(result, exact, strict=True))
        except Exception:
            # Whatever vmap does not take, element by element decides: a real failure shows there.
            same = False
        self._vmapped[fn] = same
        return result if same else self._one_by_one(fn, args, batch, sizes)

    def _batched(self, fn: Fn, args: tuple[Data, ...], sizes: Sizes) -> Data:
        def one(*element: Data) -> Data:
            return self._checked(fn, _apply(fn, element), fn.output, sizes)

        versions = [part._version for arg in args for part in arg]
        result = torch.func.vmap(one)(*args)
        if versions != [part._version for arg in args for part in arg]:
            # It writes into its inputs, which other streams share.
            raise RunError("mutation", f"function {fn.label} writes into its input")
        return tuple(result)

    def _one_by_one(self, fn: Fn, args: tuple[Data, ...], batch: int, sizes: Sizes) -> Data:
        rows = []
        for index in range(batch):
            if self.deadline is not None and time.monotonic() > self.deadline:
                raise RunError("time-limit", f"the run took longer than its limit, in function {fn.label}")
            element = tuple(tuple(part[index].clone() for part in arg) for arg in args)
            rows.append(self._checked(fn, _apply(fn, element), fn.output, sizes))
        return tuple(torch.stack(column) for column in zip(*rows, strict=True))

    def _checked(self, fn: Fn, result: object, dtype: DType, sizes: Sizes, what: str = "apply") -> Data:
        components = components_of(dtype)
        if not isinstance(result, list | tuple):
            raise TaskCodeError(
                f"function {fn.label}: {what} returned {type(result).__name__}; "
                f"expected a list of {len(components)} tensors, one per component of {dtype}"
            )
        if len(result) != len(components):
            raise TaskCodeError(
                f"function {fn.label}: {what} returned {len(result)} components; "
                f"expected {len(components)}, one per component of {dtype}"
            )
        return tuple(
            self._component(part, element_layout(element, sizes), f"function {fn.label}: component {index} of {what}")
            for index, (part, element) in enumerate(zip(result, components, strict=True))
        )

    def _component(self, value: object, expected: tuple[int, ...], who: str) -> Tensor:
        if not isinstance(value, Tensor):
            if not isinstance(value, int | float):
                raise TaskCodeError(f"{who} is a {type(value).__name__}; expected a tensor of shape {expected}")
            value = torch.tensor(float(value))
        if tuple(value.shape) != expected:
            raise TaskCodeError(f"{who} has shape {tuple(value.shape)}; expected {expected}")
        return value if self.dtype is None or value.dtype == self.dtype else value.to(self.dtype)


def _apply(fn: Fn, element: tuple[Data, ...]) -> Sequence[Tensor]:
    return _call(fn, fn.apply, *(list(arg) for arg in element))


def _call(fn: Fn, method: Callable[..., Sequence[Tensor]], *args: list[Tensor]) -> Sequence[Tensor]:
    try:
        return method(*args)
    except TaskCodeError:
        raise
    except Exception as error:
        raise TaskCodeError(f"function {fn.label} raised {type(error).__name__}: {error}") from error
