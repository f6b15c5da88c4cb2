"""The dispatch of torch's core operators on exact values, by the table of those that are followed."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from step_runtime.execution.deadline import Deadline
from step_runtime.verification.exact.facts import set_positive
from step_runtime.verification.exact.order import narrowed
from step_runtime.verification.exact.residues import CHANNELS
from step_runtime.verification.exact.table import Entry, Operand
from step_runtime.verification.exact.value import Size, Unknown, Value, fixed, joined, larger, number

_LARGEST = 2**26
"""Residues of a tensor, at most."""
_CREATED = frozenset((
    "full", "scalar_tensor", "arange", "zeros", "ones", "eye", "linspace", "tril_indices", "triu_indices",
))  # fmt: skip
"""Operators that make tensors of nothing but numbers."""
_SAME = frozenset(("clone", "alias", "detach", "lift_fresh", "lift", "resolve_conj", "resolve_neg"))
"""Operators that give what they take."""
MOVES = _SAME | frozenset((
    "view", "_unsafe_view", "reshape", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand", "select", "slice",
    "flip", "roll", "repeat", "diagonal", "unfold", "contiguous", "tril",
    "triu", "constant_pad_nd", "split", "split_with_sizes", "unbind", "cat", "stack", "slice_scatter", "select_scatter",
    "copy", "diagonal_scatter", "movedim", "narrow", "swapaxes", "as_strided", "im2col", "chunk", "diag_embed",
    "expand_as", "rot90", "flatten", "unflatten", "unsafe_split", "reflection_pad1d", "reflection_pad2d",
    "replication_pad1d", "replication_pad2d", "pixel_shuffle", "pixel_unshuffle", "upsample_nearest1d",
    "upsample_nearest2d", "squeeze_", "unsqueeze_", "transpose_", "t_",
))  # fmt: skip
"""Operators that only move numbers, or put 0 or a constant."""


@dataclass(frozen=True)
class Result:
    """The types and shapes of an operator's results in torch, from the trace."""

    dtypes: tuple[torch.dtype, ...]
    shapes: tuple[tuple[int, ...], ...]


class Operators:
    """Evaluates operators; `size` bounds all numbers met, which `count` counts; `names` has the operators."""

    def __init__(self, table: Mapping[str, Entry], deadline: Deadline | None = None) -> None:
        self.names: dict[str, None] = {}
        self.size = Size()
        self.count = 0
        self._table = table
        self._deadline = deadline

    def run(self, target: Any, args: Sequence[Operand], kwargs: dict[str, Any], result: Result) -> Any:
        """The result of an operator: a value, or a list of these.

        Raises:
            Unknown: It is not followed.
        """
        if self._deadline is not None and (used := self._deadline.passed()):
            raise Unknown(f"more than {used}")
        name = name_of(target)
        self.names |= dict.fromkeys({name} - _SAME)
        found = self.found(name, target, args, kwargs, result)
        carried = any(one.partial for one in those([args, kwargs], Value))
        several = [
            self._met(one, name, dtype, carried)
            for one, dtype in zip(found if isinstance(found, list) else [found], result.dtypes, strict=True)
        ]
        return several if isinstance(found, list) else several[0]

    def _met(self, found: Value, name: str, dtype: torch.dtype, carried: bool) -> Value:
        if found.data.numel() > _LARGEST:
            raise Unknown(f"{found.data.numel() // CHANNELS:,} numbers at once, by the operator {name}")
        entry = self._table.get(name)
        exact = entry is None or entry.exact or (name in ("neg", "abs") and dtype.is_floating_point)
        found = found.but(dtype=dtype, partial=found.partial or carried)
        found = found if exact else narrowed(found, None)
        if entry is not None and not found.partial and not found.bits and bool((found.signs == 2).all()):
            set_positive(found.data)
        self.size, self.count = larger(self.size, found.size, found.inner), self.count + found.known.numel()
        return found

    def found(self, name: str, target: Any, args: Sequence[Operand], kwargs: dict[str, Any], result: Result) -> Any:
        """What the rule of an operator gives."""
        operands = [*args, *kwargs.values()]
        values = those(operands, Value)
        entry = self._table.get(name)
        if name not in MOVES:
            _holdable(operands, values, computes=name == "to" or not entry or not (entry.exact or entry.tells))
        if not values and name in _CREATED:
            return fixed(target(*args, **kwargs))
        if name in _SAME:
            return args[0]
        if name in MOVES:
            if {*result.dtypes} - {value.dtype for value in values}:
                raise Unknown(f"the operator {target}, which reads bits as another type")
            return _moved(target, args, kwargs)
        if entry is None or getattr(target, "namespace", "aten") != "aten":
            raise Unknown(f"the operator {name}")
        types = f"{widest(values)}>{kind(result.dtypes[0])}"
        if target._overloadname not in entry.overloads.split() or types not in entry.types.split():
            raise Unknown(f"the operator {target} for such types")
        floats = [value.dtype.itemsize for value in values if value.dtype.is_floating_point]
        if kind(dtype := result.dtypes[0]) == "f" and name != "to" and max(floats, default=0) > dtype.itemsize < 4:
            raise Unknown(f"the operator {target}, which rounds its operands first")
        lower = sum(value.lower is not None for value in values)
        if entry.tells and (any(value.partial for value in values) or lower > 1):
            raise Unknown(f"the operator {name} on what may be undefined")
        if lower and not entry.lower:
            raise Unknown(f"the operator {name} on what may be infinite")
        if name == "to":
            args, kwargs = [args[0], result.dtypes[0]], {}
        return entry.rule(*args, **kwargs)


def _holdable(operands: Sequence[Operand], values: Sequence[Value], *, computes: bool) -> None:
    """Refuses constants that are not those of torch: float64 does not hold them, or torch rounds them to a format.

    An operator that computes takes a constant as it is; one that compares or moves rounds it to the others' format.

    Raises:
        Unknown: There is one.
    """
    wholes = [value.known for value in values if not value.dtype.is_floating_point]
    if any(bool((one.abs() >= 2**53).any()) for one in wholes) or any(
        isinstance(one, int) and abs(one) >= 2**53 for one in operands
    ):
        raise Unknown("a whole number from 2^53 on")
    narrow = [value.dtype for value in values if value.dtype.is_floating_point and value.dtype.itemsize < 4]
    floats = [torch.tensor(one, dtype=torch.float64) for one in operands if isinstance(one, float)]
    floats += [value.known for value in values if not value.shape and value.dtype in (torch.float32, torch.float64)]
    if narrow and not computes and any(bool((one.to(narrow[0]).double() != one).any()) for one in floats):
        raise Unknown("a constant that is rounded to a narrow format")


def name_of(target: Any) -> str:
    """The name of an operator, the same for one that makes a copy."""
    name = target.overloadpacket.__name__ if hasattr(target, "overloadpacket") else str(target)
    return "to" if name == "_to_copy" else name.removesuffix("_copy")


def mapped(operand: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """An operand of an operator with what is of a kind in it changed."""
    if isinstance(operand, dict):
        return {name: mapped(one, kind, change) for name, one in operand.items()}
    if isinstance(operand, list | tuple):
        return [mapped(one, kind, change) for one in operand]
    return change(operand) if isinstance(operand, kind) else operand


def those(operand: Any, kind: type) -> list[Any]:
    """What is of a kind in an operand."""
    found: list[Any] = []
    mapped(operand, kind, found.append)
    return found


def kind(dtype: torch.dtype) -> str:
    """The kind of a type: `b`, `i` or `f`."""
    return "b" if dtype == torch.bool else "f" if dtype.is_floating_point else "i"


def widest(values: Sequence[Value]) -> str:
    """The kind that operands are promoted to; `-` without any."""
    return max((kind(value.dtype) for value in values), key="bif".index, default="-")


def _moved(target: Any, args: Sequence[Operand], kwargs: dict[str, Any]) -> Any:
    """What a move gives: it is made on the numbers' places, and then with the numbers."""
    name, args, fill = name_of(target), list(args), 0.0
    if name == "constant_pad_nd":
        fill, args[2:] = float(args[2] if len(args) > 2 else kwargs.pop("value", 0.0)), [0]
    kwargs = {key: one for key, one in kwargs.items() if key not in ("memory_format", "dtype", "device")}
    sources = those([args, kwargs], Value)
    dtype = sources[0].dtype
    if dtype not in (torch.float32, torch.float64) and float(torch.tensor(fill).to(dtype)) != fill:
        raise Unknown("a padding by a number that the type does not have")
    first = number(fill).but(bits=fill in (0.0, 1.0) and all(source.bits for source in sources))
    sources = [first, *sources]
    # Some take floats only.
    real = name.startswith(("upsample", "im2col", "reflection", "replication"))
    numbers = iter([one.double() if real else one for one in places(sources)[1:]])
    found = target(*mapped(args, Value, lambda _: next(numbers)), **mapped(kwargs, Value, lambda _: next(numbers)))
    return mapped(found, Tensor, lambda one: at_places(sources, one.long()))


def places(sources: Sequence[Value]) -> list[Tensor]:
    """The places of the numbers of some values, one value after the other."""
    starts = _starts(sources)
    spans = zip(starts, starts[1:], sources, strict=False)
    return [torch.arange(start, end).reshape(source.shape) for start, end, source in spans]


def at_places(sources: Sequence[Value], wanted: Tensor) -> Value:
    """The numbers at some places of these values, of which others are not looked at."""
    flat, starts = wanted.reshape(-1), _starts(sources)
    first, last = (bisect_right(starts, int(end)) for end in flat.aminmax()) if len(flat) else (1, 1)
    rows = [source.parts(lambda part: part.reshape(*part.shape[:2], -1)) for source in sources[first - 1 : last]]
    row = joined(rows, 0, torch.cat) if len(rows) > 1 else rows[0]
    own = flat - starts[first - 1]
    return row.parts(lambda part: part.index_select(2, own).reshape(*part.shape[:2], *wanted.shape))


def _starts(sources: Sequence[Value]) -> list[int]:
    return [*itertools.accumulate((math.prod(source.shape) for source in sources), initial=0)]
