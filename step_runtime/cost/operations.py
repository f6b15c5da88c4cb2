"""How many operations a function takes: its torch operators, recorded on one element, counted by a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Sizes
from step_runtime.base.types import Element, Multihot, components_of
from step_runtime.cost.chip import ELEMENTWISE, MATMUL, OTHER, Weight
from step_runtime.execution.invocation import apply, default_dtype, element_layout, initial
from step_runtime.execution.number_formats import element_type

_PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "vdot": 0, "addmm": 1, "addbmm": 1, "baddbmm": 1, "addmv": 1}
"""Products of matrices and vectors, with the place of the left one among the arguments."""


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations of the operators that run within the context.

    Args:
        known: The tensors that count as given. Operators that read none that was computed from these are not counted:
            what does not depend on an element is computed once, before the program runs. None counts all operators.
    """

    def __init__(self, weights: Mapping[str, Weight], known: Iterable[Tensor] | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0
        self._weights = weights
        # The tensors are kept, as the identity of one that is gone may be another's.
        self._known = None if known is None else {id(tensor): tensor for tensor in known}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise torch imports its compiler, which takes a second, to keep it from compiling this class.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        taken = list(_tensors([*args, *(kwargs or {}).values()]))
        made = list(_tensors([result]))
        if self._known is None or any(id(tensor) in self._known for tensor in taken):
            self.operations += self._count(func, args, taken, made)
            if self._known is not None:
                # An operator that writes into a tensor gives that tensor.
                self._known |= {id(tensor): tensor for tensor in made}
        return result

    def _count(self, func: Any, args: Any, taken: list[Tensor], made: list[Tensor]) -> int:
        if func.is_view or torch.Tag.inplace_view in func.tags:
            return 0
        # In-place variants count as what they are a variant of.
        name = func._schema.name.removeprefix("aten::").rstrip("_")
        weight = self._weights.get(name)
        if weight is None:
            products = _products(func, name, args, made)
            if products is not None:
                (added, per_product) = products
                return _single(self._weights[MATMUL]) * per_product + added * _single(self._weights[ELEMENTWISE])
            weight = self._weights[ELEMENTWISE if torch.Tag.pointwise in func.tags else OTHER]
        per_read, per_made = weight if isinstance(weight, tuple) else (0, weight)
        return per_read * max((tensor.numel() for tensor in taken), default=0) + per_made * sum(
            tensor.numel() for tensor in made[:1]
        )


def _single(weight: Weight) -> int:
    return sum(weight) if isinstance(weight, tuple) else weight


def _products(func: Any, name: str, args: Any, made: list[Tensor]) -> tuple[int, int] | None:
    """For a product of matrices, the numbers that are added to it and the products that it adds up; None for others."""
    if name in _PRODUCTS:
        place = _PRODUCTS[name]
        left = args[place]
        batch = left.shape[0] if name == "addbmm" else 1
        return (made[0].numel() if place else 0), made[0].numel() * left.shape[-1] * batch
    if torch.Tag.pointwise in func.tags:
        return None
    from torch.utils.flop_counter import flop_registry  # imports triton, where that is installed

    packet = getattr(func, "overloadpacket", None)
    if packet in flop_registry:
        # A convolution or an attention, for which torch's own counter has 2 for each product.
        return 0, int(flop_registry[packet](*args, out_val=made if len(made) > 1 else made[0])) // 2
    return None


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


class OperationCounter:
    """Counts the operations of functions with code, at some sizes; each function runs once.

    A function that branches on its element is counted on the branch that the sample takes: numbers between 0 and 1,
    integers 1, true, and Multihots whose first bit is set.
    """

    def __init__(self, sizes: Sizes, weights: Mapping[str, Weight], dtype: torch.dtype = torch.float64) -> None:
        self._sizes = sizes
        self._weights = dict(weights)
        self._dtype = dtype
        self._counts: dict[Fn, int] = {}

    def __call__(self, fn: Fn) -> int:
        """The operations of one call.

        Raises:
            TaskCodeError: The function fails on the sample, or gives something else than it declares.
        """
        if fn not in self._counts:
            self._counts[fn] = self._counted(fn)
        return self._counts[fn]

    def _counted(self, fn: Fn) -> int:
        with _settled(self._dtype):
            arguments = [[self._element(element) for element in components_of(fn.input)]]
            if fn.stateful:
                # A function may write into its state, and `getInit` may return the same tensors every time.
                arguments.insert(0, [part.clone() for part in initial(fn, self._sizes, self._dtype)])
            with Recorder(self._weights, [tensor for argument in arguments for tensor in argument]) as recorder:
                apply(fn, arguments, self._sizes, None)
        return int(recorder.operations)

    def _element(self, element: Element) -> Tensor:
        shape, dtype = element_layout(element, self._sizes), element_type(element, self._dtype)
        if not isinstance(getattr(element, "elem", element), Multihot):
            # Ones are the numbers that every format of integers and truth values holds, and none divides by zero.
            whole = element.format.kind != "float"
            return torch.ones(shape, dtype=dtype) if whole else torch.rand(shape, dtype=self._dtype).to(dtype)
        bits = torch.zeros(shape, dtype=dtype)
        bits[..., 0] = 1
        return bits


def operations_of(run: Callable[[], object], weights: Mapping[str, Weight], dtype: torch.dtype) -> int:
    """The operations of everything that a call runs, such as a task's references."""
    with _settled(dtype), Recorder(weights) as recorder:
        run()
    return int(recorder.operations)


@contextmanager
def _settled(dtype: torch.dtype) -> Iterator[None]:
    """Random numbers that are the same every time, and leave torch's own as they were."""
    with default_dtype(dtype), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        yield
