"""Which functions may serve a part of a reference: those that execute nothing that the part does not.

The reference and each function run while PyTorch's operators are recorded, with the lengths of a reference's axes, as
each may be a row's, and of a function's rows. A function of scalars serves at any length.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from step_runtime.base.errors import TaskCodeError
from step_runtime.base.types import Element, Multihot, components_of
from step_runtime.execution.invocation import apply, element_layout, initial
from step_runtime.execution.number_formats import element_type
from step_runtime.verification.instance import TaskInstance


@dataclass(frozen=True)
class Executed:
    """Operators, lengths of axes, and of rows: the last axes of what operators take and give, those of views aside."""

    names: frozenset[str]
    lengths: frozenset[int]
    rows: frozenset[int]


_SAME = {
    "mm": "matmul", "bmm": "matmul", "mv": "matmul", "dot": "matmul", "addmm": "matmul add", "addmv": "matmul add",
    "baddbmm": "matmul add", "pow": "mul", "square": "mul", "max": "amax", "maximum": "amax", "min": "amin",
    "minimum": "amin", "_softmax": "softmax", "silu": "sigmoid mul", "rsub": "sub", "masked_fill": "where",
}  # fmt: skip
_IMPLIED = {
    "matmul": "mul sum add", "mean": "sum add div mul", "sum": "add", "cumsum": "add", "cumprod": "mul", "prod": "mul",
    "softmax": "exp amax sub sum div add", "_log_softmax": "exp amax sub sum add log", "logsumexp": "exp sum add log",
    "native_layer_norm": "mean sum add sub mul rsqrt sqrt div", "_fused_rms_norm": "mean sum add mul rsqrt sqrt div",
    "var": "mean sum add sub mul div", "std": "mean sum add sub mul div sqrt", "rsqrt": "sqrt div reciprocal",
    "sigmoid": "exp neg add reciprocal div", "gelu": "mul erf tanh add", "amax": "amax", "addcmul": "mul add",
    "linalg_vector_norm": "mul sum add sqrt", "sub": "neg add", "div": "reciprocal mul", "where": "mul",
}  # fmt: skip
"""What a function of a step of such an operator executes."""
_VIEWS = {
    "_local_scalar_dense", "_reshape_alias", "_to_copy", "_unsafe_view", "alias", "arange", "as_strided", "cat",
    "clone", "copy", "detach", "equal", "empty", "expand", "fill", "full", "lift_fresh", "narrow",
    "new_ones", "new_zeros", "ones",
    "ones_like", "permute", "reshape", "scalar_tensor", "select", "slice", "split", "split_with_sizes", "squeeze",
    "stack", "t", "transpose", "unbind", "unsqueeze", "view", "zeros", "zeros_like",
}  # fmt: skip
"""They compute nothing."""


_SLOW = 0.005
"""Seconds of one call from which on a function holds up a search."""


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records what runs within the context; `taken` gives it, and begins anew.

    Lengths are those of all axes, or of the last ones alone.
    """

    def __init__(self, *, last: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._from = -1 if last else 0
        self._names, self._lengths, self._rows = set[str](), {1}, {1}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise torch imports its compiler, which takes a second.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operator, and records it."""
        out = func(*args, **(kwargs or {}))
        name = func.__name__.partition(".")[0]
        name = name if name.startswith("_") else name.removesuffix("_")
        self._names |= {*_SAME.get(name, name).split()} - _VIEWS
        shapes = [each.shape for each in (*args, out) if isinstance(each, Tensor)]
        self._lengths |= {length for shape in shapes for length in shape[self._from :]}
        self._rows |= {shape[-1] for shape in shapes if shape and name not in _VIEWS}
        return out

    def taken(self) -> Executed:
        """What ran since the last call."""
        found = Executed(frozenset(self._names), frozenset(self._lengths), frozenset(self._rows))
        self._names, self._lengths, self._rows = set(), {1}, {1}
        return found


def implied(parts: Iterable[Executed]) -> Executed:
    """What parts execute together, and what functions of their steps do."""
    every = list(parts)
    names = frozenset[str]().union(*(part.names for part in every))
    steps = {step for name in names for step in _IMPLIED.get(name, "").split()}
    lengths, rows = (frozenset({1}).union(*(getattr(part, each) for part in every)) for each in ("lengths", "rows"))
    return Executed(names | steps, lengths, rows)


def may_serve(own: Executed, there: Executed) -> bool:
    """Whether all that a function executes is executed there, at the same lengths."""
    return own.names <= there.names and own.lengths <= there.lengths


def suits(own: Executed, parts: Iterable[Executed]) -> bool:
    """Whether parts execute each operator of a function, on such rows; a fold's is one of a sum's."""
    theirs = [part for part in parts if not own.names or own.names & _direct(part)]
    names = frozenset[str]().union(*map(_direct, theirs))
    if not own.names:
        return own.lengths <= frozenset[int]().union(*(part.lengths for part in theirs))
    return own.names <= names and own.rows <= frozenset[int]().union(*(part.rows for part in theirs))


def _direct(part: Executed) -> frozenset[str]:
    return part.names | {"add"} if part.names & {"sum", "cumsum"} else part.names


def executed_by_functions(instance: TaskInstance, slow: dict[str, float]) -> Mapping[str, Executed]:
    """What each function of a task executes on an element; one that fails on it is left out.

    The seconds of processor time of a call are added to `slow`, where they are many.
    """
    found, generator = dict[str, Executed](), torch.Generator().manual_seed(0)
    for name, fn in instance.scope.fns.items():
        recorder = Recorder(last=True)
        element = [_sample(part, instance, generator) for part in components_of(fn.input)]
        try:
            given = [list(initial(fn, instance.sizes, instance.dtype)), element] if fn.stateful else [element]
            apply(fn, given, instance.sizes, instance.dtype)
            start = time.process_time()
            with recorder:
                apply(fn, given, instance.sizes, instance.dtype)
        except TaskCodeError:
            continue
        if (seconds := time.process_time() - start) > _SLOW:
            slow[name] = seconds
        found[name] = recorder.taken()
    return found


def _sample(element: Element, instance: TaskInstance, generator: torch.Generator) -> Tensor:
    shape = element_layout(element, instance.sizes)
    numbers = torch.rand(shape, generator=generator)
    if isinstance(getattr(element, "elem", element), Multihot) or element.format.kind != "float":
        numbers = (numbers > 0.5).to(numbers.dtype)
    return numbers.to(element_type(element, instance.dtype))
