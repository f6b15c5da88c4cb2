"""Traces functions: one run by `torch.func.vmap`, recorded operator by operator as a `Tape`.

Runs on two batches of different sizes give recordings that differ only in the sizes: an int that differs is a multiple
of batch sizes, so that one tape serves every batch. A tensor from outside is either a literal of the function or known
to `Captures`. A function that uses any other tensor, reads values into Python, or writes into tensors that others may
hold has no tape.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from step_runtime.execution.tracing.captures import Captures
from step_runtime.execution.tracing.tape import Extent, Node, Tape, Var

MAX_BATCH_DIMS = 4
# The products of any of their ratios differ, so that a ratio identifies the batch dims that an int spans.
_SIZES = ((2, 2, 2, 2), (3, 4, 5, 7))
_READS = {
    *("tolist", "numpy", "item", "storage", "untyped_storage", "equal", "allclose", "is_nonzero"),
    *("__bool__", "__int__", "__float__", "__index__", "__complex__", "__contains__", "__array__", "__dlpack__"),
    *("__repr__", "__format__", "__reduce_ex__", "map_", "apply_"),
}
_LIFT = torch.ops.aten.lift_fresh.default
_VIEWS = {torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default}


class Untraceable(Exception):
    """The function cannot be traced; the message says why."""


def trace(function: Callable[..., Any], example: tuple[Tensor, ...], captures: Captures, dims: int = 1) -> Tape:
    """The tape of `function`, which takes one element's tensors such as `example`, over `dims` batch dims.

    Raises:
        Untraceable: The function cannot be traced. Exceptions of `function` pass through.
    """
    one, other = (_record(function, example, sizes[:dims]) for sizes in _SIZES)
    return _Merger(one, other, captures).tape


class _Call(NamedTuple):
    op: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: list[Tensor]
    marks: list[Any]


class _Recording(NamedTuple):
    sizes: tuple[int, ...]
    inputs: tuple[Tensor, ...]
    calls: list[_Call]
    outputs: tuple[Tensor, ...]


def _mark(tensor: Tensor) -> Any:
    """What two names of one tensor have in common while both exist."""
    place = tensor.data_ptr() if tensor.numel() else id(tensor)
    return place, tensor.shape, tensor.stride(), tensor.dtype


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records every operator that runs below vmap, with its outputs at that time."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[_Call] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise torch imports its compiler, which takes a second, to keep it from compiling this class.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        outputs = list(result) if isinstance(result, list | tuple) else [result]
        if not outputs or not all(isinstance(output, Tensor) for output in outputs):
            raise Untraceable(f"{func} reads a value")
        if func is torch.ops.aten.as_strided.default:
            raise Untraceable(f"{func} depends on the place in memory")
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise Untraceable(f"{func} is random")
        self.calls.append(_Call(func, args, kwargs or {}, outputs, [_mark(output) for output in outputs]))
        return result


class _ReadGuard(TorchFunctionMode):
    """Rejects what reads values into Python without calling an operator."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in _READS:
            raise Untraceable(f"{func.__name__} reads a value")
        return func(*args, **(kwargs or {}))


def _record(function: Callable[..., Any], example: tuple[Tensor, ...], sizes: tuple[int, ...]) -> _Recording:
    inputs = tuple(part.expand(*sizes, *part.shape).clone() for part in example)
    for _ in sizes:
        function = torch.func.vmap(function)
    with _ReadGuard(), _Recorder() as recorder:
        outputs = function(*inputs)
    return _Recording(sizes, inputs, recorder.calls, tuple(outputs))


class _Merger:
    """Makes one tape of two recordings."""

    def __init__(self, one: _Recording, other: _Recording, captures: Captures) -> None:
        if [call.op for call in one.calls] != [call.op for call in other.calls]:
            raise Untraceable("it runs other operators at another batch size")
        self._sizes = one.sizes, other.sizes
        self._captures = captures
        self._counter = itertools.count()
        self._vars: dict[tuple[int, int], Var] = {}
        self._marked: dict[Any, Var] = {}
        self._values: dict[Var, Tensor] = {}
        self._shared: set[int] = set()
        self.tape = Tape(len(one.sizes))
        for pair in zip(one.inputs, other.inputs, strict=True):
            self.tape.inputs.append(self._outside(*pair))
        for calls in zip(one.calls, other.calls, strict=True):
            self._call(*calls)
        self.tape.outputs = [self._var(*pair) for pair in zip(one.outputs, other.outputs, strict=True)]
        if self.tape.functional:
            self._fold_constants()

    def _call(self, one: _Call, other: _Call) -> None:
        if one.op is _LIFT and (id(one.args[0]), id(other.args[0])) not in self._vars:
            self._literal(one.args[0], other.args[0])
        args, kwargs = self._merged(one.args, other.args), self._merged(one.kwargs, other.kwargs)
        op = one.op
        if torch.Tag.inplace_view in op.tags:
            # Only a name's shape changes, for which the functional form gives a new name.
            op = _functional(op)
        elif op._schema.is_mutable:
            self._write(one)
        elif op in _VIEWS:
            # The inputs of a replay, such as a repeated stream, may have a memory layout that `view` rejects.
            op = torch.ops.aten.reshape.default
        known = set(self._values)
        outputs = tuple(
            self._name(a, b, marks)
            for a, b, *marks in zip(one.outputs, other.outputs, one.marks, other.marks, strict=True)
        )
        if op._schema.is_mutable or not known.issuperset(outputs):
            self.tape.nodes.append(Node(op, args, kwargs, outputs))

    def _name(self, one: Tensor, other: Tensor, marks: Any) -> Var:
        """The tensor's number: an earlier tensor's if it is an alias of that (a `detach`, a `view`)."""
        key = tuple(marks)
        if key not in self._marked:
            var = self._marked[key] = Var(next(self._counter))
            self._values[var] = one
            count = self.tape.dims
            (_, shape, *_), (_, longer, *_) = key
            if (shape[:count], longer[:count]) == self._sizes and shape[count:] == longer[count:]:
                self.tape.layouts[var] = shape[count:]
        self._vars[id(one), id(other)] = self._marked[key]
        return self._marked[key]

    def _outside(self, one: Tensor, other: Tensor) -> Var:
        """The number of a tensor that no operator of the tape gives, and that none may write into."""
        self._shared.add(one.untyped_storage().data_ptr())
        return self._name(one, other, [_mark(one), _mark(other)])

    def _literal(self, one: Tensor, other: Tensor) -> None:
        if not torch.equal(one, other) and not one.isnan().any():
            raise Untraceable("a literal differs from one run to the next")
        self.tape.constants[self._outside(one, other)] = one

    def _var(self, one: Tensor, other: Tensor) -> Var:
        var = self._vars.get((id(one), id(other)))
        if var is None:
            place = self._captures.place(one)
            if place is None or one is not other:
                raise Untraceable("it uses a tensor whose source is unknown")
            var = self._outside(one, other)
            self.tape.captured.append((var, place, one))
        return var

    def _write(self, call: _Call) -> None:
        self.tape.functional = False
        if call.args[0].untyped_storage().data_ptr() in self._shared:
            raise Untraceable(f"{call.op} writes into a tensor that others hold")

    def _merged(self, one: Any, other: Any) -> Any:
        """One value for two: a `Var`, an `Extent`, or the value where both are equal."""
        if isinstance(one, Tensor):
            return self._var(one, other)
        if isinstance(one, list | tuple):
            return tuple(self._merged(a, b) for a, b in zip(one, other, strict=True))
        if isinstance(one, dict):
            return {key: self._merged(value, other[key]) for key, value in one.items()}
        if one == other or one != one:
            return one
        if isinstance(one, int) and isinstance(other, int):
            return self._extent(one, other)
        raise Untraceable(f"{one!r} depends on the batch")

    def _extent(self, one: int, other: int) -> Extent:
        for count in range(1, self.tape.dims + 1):
            for dims in itertools.combinations(range(self.tape.dims), count):
                a, b = (prod(sizes[dim] for dim in dims) for sizes in self._sizes)
                if one * b == other * a and one % a == 0:
                    return Extent(one // a, dims)
        raise Untraceable(f"{one} depends on the batch, and is not a multiple of its size")

    def _fold_constants(self) -> None:
        """Keeps the values that depend on no input, no captured tensor and no size."""
        varying = []
        for node in self.tape.nodes:
            if node.inputs <= self.tape.constants.keys() and not node.sized:
                self.tape.constants |= {output: self._values[output] for output in node.outputs}
            else:
                varying.append(node)
        self.tape.nodes = varying


def _functional(op: OpOverload) -> OpOverload:
    packet = getattr(torch.ops.aten, op._schema.name.removeprefix("aten::").removesuffix("_"))
    functional: OpOverload = getattr(packet, op._overloadname)
    return functional
