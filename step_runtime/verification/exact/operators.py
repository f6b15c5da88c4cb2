"""torch's core operators on exact values.

An operator that is not in the table gives free symbols of all that it takes; one that is random, or whose result's
shape depends on data, is `Unknown`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from step_runtime.execution.deadline import Deadline
from step_runtime.verification.exact import residues
from step_runtime.verification.exact.complexes import gives_complex, is_complex, of_complex
from step_runtime.verification.exact.decisions import current
from step_runtime.verification.exact.dependence import dependent
from step_runtime.verification.exact.formats import narrowed
from step_runtime.verification.exact.moves import MOVES, moved
from step_runtime.verification.exact.operands import Complex, Operand, Result, Rule
from step_runtime.verification.exact.residues import fingerprint, mixed, symbols
from step_runtime.verification.exact.value import Unknown, Value, fresh

_FLOAT = torch.float64
_LARGEST = 2**26
"""Residues of a tensor, at most."""


class Operators:
    """Evaluates operators.

    `free` has those that were not followed, in the order of their first use; `angles` says whether there were sines.
    """

    def __init__(self, table: Mapping[str, Rule], deadline: Deadline | None = None) -> None:
        self.free: dict[str, None] = {}
        self._table = table
        self._deadline = deadline
        self.degree = 0.0
        self.angles = False

    def run(self, target: Any, args: Sequence[Operand], kwargs: dict[str, Any], result: Result) -> Any:
        """The result of an operator.

        Raises:
            Unknown: It is not followed.
        """
        if self._deadline is not None and (used := self._deadline.passed()):
            raise Unknown(f"more than {used}")
        name = target.overloadpacket.__name__ if hasattr(target, "overloadpacket") else str(target)
        name = name.removesuffix("_copy") if name != "_to_copy" else name
        self.angles = self.angles or name in ("sin", "cos", "polar") or (name == "exp" and is_complex(args))
        if (decisions := current()) is not None:
            decisions.asked = 0
        found = self._found(name, target, args, kwargs, result)
        found = dependent(name, found, args, kwargs, decisions.asked if decisions is not None else 0)
        if any(_logged(one) for one in (*args, *kwargs.values())):
            found = _with_log(found)
        if isinstance(found, list | tuple):
            return [self._met(one, name) for one in found]
        return self._met(found, name)

    def _met(self, found: Any, name: str) -> Any:
        if not isinstance(found, Value):
            return found
        if found.data.numel() > _LARGEST:
            raise Unknown(f"{found.data.numel() // residues.CHANNELS:,} numbers at once, by the operator {name}")
        self.degree = max(self.degree, sum(found.degree), sum(found.inner))
        return found

    def _found(self, name: str, target: Any, args: Sequence[Operand], kwargs: dict[str, Any], result: Result) -> Any:
        if gives_complex(name, args, result):
            return of_complex(name, target, args, kwargs, result, self._table)
        if name in MOVES:
            return moved(target, args, kwargs, result)
        if name in self._table:
            found = self._table[name](args, kwargs, result)
            if found is not None:
                return self._rounded(found, name, result)
        return self._generic(name, target, args, kwargs, result)

    def _rounded(self, found: Any, name: str, result: Result) -> Any:
        """The result of arithmetic in a narrow format: rounded to it, or wrapped around, by a function that is free."""
        exact = name in _EXACT or (name in ("neg", "abs") and result.dtype.is_floating_point)
        if isinstance(found, Value) and not exact:
            return narrowed(replace(found, dtype=result.dtype), None)
        return found

    def _generic(self, name: str, target: Any, args: Sequence[Operand], kwargs: dict[str, Any], result: Result) -> Any:
        """Free symbols of all operands, and of all numbers in each."""
        tags, schema = getattr(target, "tags", ()), getattr(target, "_schema", None)
        if (
            schema is None
            or schema.is_mutable
            or name.startswith(_WITHOUT_VALUE)
            or getattr(target, "namespace", "") != "aten"
        ):
            raise Unknown(f"the operator {name}")
        if _UNFOLLOWED & set(tags):
            raise Unknown(f"the operator {name}, which is random or depends on data in its shape")
        if name in _UNSET:
            like = torch.zeros(residues.CHANNELS, 1, *result.shape, dtype=torch.int64)
            return Value(fresh(like), torch.full_like(like[:1], torch.nan, dtype=_FLOAT), result.dtype)
        self.free.setdefault(name)
        values = [one for one in _flat([*args, *kwargs.values()]) if isinstance(one, Value)]
        if is_complex([*args, *kwargs.values()]):
            raise Unknown(f"the operator {name} on complex numbers")
        batch = max((value.batch for value in values), default=1)
        words = torch.zeros(2, batch, dtype=torch.int64) + residues.seed(
            f"{target} {_spelled(args)} {_spelled(kwargs)}"
        )
        for value in values:
            own = fingerprint(value.data)
            own = own.reshape(*own.shape[:2], -1) + residues.seed(f"{value.dtype} {value.shape}")
            places = mixed(torch.arange(own.shape[2]) + 7)
            words = mixed(words + mixed(own * (2 * places + 1) + places).sum(2))
        found = []
        for number, (dtype, shape) in enumerate(zip(result.dtypes, result.shapes, strict=True)):
            places = mixed(torch.arange(math.prod(shape)) + 1000 * number + 3)
            own = mixed(words.unsqueeze(2) + places).reshape(2, batch, *shape)
            known = torch.full((1, batch, *shape), torch.nan, dtype=_FLOAT)
            found.append(Value(symbols("generic", own), known, dtype, bits=dtype == torch.bool))
        return found[0] if len(found) == 1 else found


_UNFOLLOWED = {torch.Tag.nondeterministic_seeded, torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}
_WITHOUT_VALUE = ("rand", "bernoulli", "nonzero", "unique", "masked_select", "_local_scalar", "set_")
_UNSET = frozenset(("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"))
"""Operators whose results hold what happens to be in memory."""
_EXACT = frozenset(("where", "maximum", "minimum", "amax", "amin", "topk", "sort", "max", "min", "_to_copy", "to"))
"""Operators whose results a format holds wherever it holds their operands."""


def _logged(operand: Operand) -> bool:
    if isinstance(operand, list | tuple):
        return any(map(_logged, operand))
    if isinstance(operand, Complex):
        return operand.real.logged or operand.imaginary.logged
    return isinstance(operand, Value) and operand.logged


def _with_log(found: Any) -> Any:
    if isinstance(found, list | tuple):
        return [_with_log(one) for one in found]
    if isinstance(found, Complex):
        return Complex(_with_log(found.real), _with_log(found.imaginary))
    return replace(found, logged=True)


def _flat(args: Sequence[Any]) -> list[Any]:
    return [one for arg in args for one in (_flat(arg) if isinstance(arg, list | tuple) else [arg])]


def _spelled(args: Any) -> str:
    """What operands are, without their numbers."""
    if isinstance(args, Value):
        return "_"
    if isinstance(args, dict):
        return " ".join(f"{key}={_spelled(value)}" for key, value in args.items())
    return f"[{' '.join(map(_spelled, args))}]" if isinstance(args, list | tuple) else repr(args)
