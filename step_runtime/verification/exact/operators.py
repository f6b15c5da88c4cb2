"""The dispatch of torch's core operators on exact values, by the table of those that are followed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from step_runtime.execution.deadline import Deadline
from step_runtime.verification.exact.complexes import gives_complex, of_complex
from step_runtime.verification.exact.decisions import current
from step_runtime.verification.exact.dependence import dependent
from step_runtime.verification.exact.formats import narrowed
from step_runtime.verification.exact.moves import MOVES, moved
from step_runtime.verification.exact.operands import Complex, Operand, Result, Rule
from step_runtime.verification.exact.residues import CHANNELS
from step_runtime.verification.exact.value import Size, Unknown, Value, larger

_OF_LOWER = frozenset((
    "add", "sub", "mul", "div", "maximum", "amax", "where", "masked_fill", "exp", "_softmax", "logsumexp",
    "logcumsumexp",
    "logaddexp", "topk", "sort", "argmax", "eq", "ne", "gt", "lt", "ge", "le", "isnan", "clamp", "clamp_min", "relu",
    "sigmoid", "_to_copy", "to", "full_like", "zeros_like", "ones_like", "sum", "max",
))  # fmt: skip
"""Operators whose rules say themselves what minus infinity gives."""
_LARGEST = 2**26
"""Residues of a tensor, at most."""


class Entry(NamedTuple):
    """An operator that is followed.

    Attributes:
        rule: What it gives.
        types: Pairs of the widest kind of its tensors and the kind of its result, as `i>f`: floats, integers, booleans.
        overloads: Those that the rule is the meaning of.
        tells: Whether it tells NaN or infinity from other numbers, so that its operands have to be defined.
        exact: Whether a format holds its results wherever it holds its operands.
    """

    rule: Rule
    types: str
    overloads: str
    tells: bool = False
    exact: bool = False


class Operators:
    """Evaluates operators; `size` bounds all numbers met, which `count` counts; `names` has the operators."""

    def __init__(self, table: Mapping[str, Entry], deadline: Deadline | None = None) -> None:
        self.names: dict[str, None] = {}
        self.size = Size()
        self.count = 0
        self._table = table
        self._deadline = deadline

    def run(self, target: Any, args: Sequence[Operand], kwargs: dict[str, Any], result: Result) -> Any:
        """The result of an operator.

        Raises:
            Unknown: It is not followed.
        """
        if self._deadline is not None and (used := self._deadline.passed()):
            raise Unknown(f"more than {used}")
        name = name_of(target)
        if (decisions := current()) is not None:
            decisions.asked = 0
        self.names.setdefault(name)
        found = self._found(name, target, args, kwargs, result)
        found = dependent(name, found, args, kwargs, decisions.asked if decisions is not None else 0)
        values = [*values_of([*args, *kwargs.values()])]
        carried = {flag: True for flag in ("partial", "broken") if any(getattr(one, flag) for one in values)}
        if isinstance(found, list | tuple):
            return [self._met(one, name, carried) for one in found]
        return self._met(found, name, carried)

    def _met(self, found: Any, name: str, carried: dict[str, Any]) -> Any:
        if isinstance(found, Complex):
            parts = (self._met(part, name, carried) for part in (found.real, found.imaginary))
            return Complex(*parts)
        if found.data.numel() > _LARGEST:
            raise Unknown(f"{found.data.numel() // CHANNELS:,} numbers at once, by the operator {name}")
        self.size, self.count = larger(self.size, found.size, found.inner), self.count + found.known.numel()
        return replace(found, **carried) if carried else found

    def _found(self, name: str, target: Any, args: Sequence[Operand], kwargs: dict[str, Any], result: Result) -> Any:
        if gives_complex(name, args, result):
            return of_complex(
                name, target, args, kwargs, result, {key: entry.rule for key, entry in self._table.items()}
            )
        values = [*values_of([*args, *kwargs.values()])]
        if name in MOVES:
            if {*result.dtypes} - {value.dtype for value in values}:
                raise Unknown(f"the operator {target}, which reads bits as another type")
            return moved(target, args, kwargs, result)
        entry = self._table.get(name)
        if entry is None or getattr(target, "namespace", "aten") != "aten":
            raise Unknown(f"the operator {name}")
        types = f"{widest(values)}>{kind(result.dtype)}"
        if overload(target) not in entry.overloads.split() or types not in entry.types.split():
            raise Unknown(f"the operator {target} for such types")
        lower = sum(value.lower for value in values)
        if entry.tells and (any(value.partial for value in values) or lower > 1 or (lower and name not in _OF_LOWER)):
            raise Unknown(f"the operator {name} on what may be undefined")
        if lower and name not in _OF_LOWER:
            raise Unknown(f"the operator {name} on what may be infinite")
        found = entry.rule(args, kwargs, result)
        if found is None:
            raise Unknown(f"the operator {name} with such operands")
        exact = entry.exact or (name in ("neg", "abs") and result.dtype.is_floating_point)
        if isinstance(found, Value) and not exact:
            return narrowed(replace(found, dtype=result.dtype), None)
        return found


def name_of(target: Any) -> str:
    """The name of an operator, the same for one that makes a copy."""
    name = target.overloadpacket.__name__ if hasattr(target, "overloadpacket") else str(target)
    return name.removesuffix("_copy") if name != "_to_copy" else name


def overload(target: Any) -> str:
    """The name of an overload."""
    return str(getattr(target, "_overloadname", "default"))


def values_of(operands: Any) -> Iterator[Value]:
    """The values among operands."""
    for one in operands:
        if isinstance(one, list | tuple):
            yield from values_of(one)
        elif isinstance(one, Complex):
            yield from (one.real, one.imaginary)
        elif isinstance(one, Value):
            yield one


def kind(dtype: torch.dtype) -> str:
    """The kind of a type: `b`, `i`, `f` or `c`."""
    if dtype == torch.bool:
        return "b"
    return "c" if dtype.is_complex else "f" if dtype.is_floating_point else "i"


def widest(values: Sequence[Value]) -> str:
    """The kind that operands are promoted to; `-` without any."""
    return max((kind(value.dtype) for value in values), key="bif".index, default="-")
