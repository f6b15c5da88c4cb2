"""Which decisions by data the results of an operator depend on, number by number, at least."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from step_runtime.verification.exact.decisions import mask_tensor, union
from step_runtime.verification.exact.moves import MOVES
from step_runtime.verification.exact.operands import Complex, Operand
from step_runtime.verification.exact.value import WORDS, Unknown, Value

EACH = frozenset((
    "add", "sub", "rsub", "mul", "div", "true_divide", "neg", "reciprocal", "square", "pow", "exp", "log", "sqrt",
    "rsqrt", "sigmoid", "silu", "tanh", "abs", "relu", "gelu", "clamp", "clamp_min", "clamp_max", "maximum", "minimum",
    "where", "masked_fill", "gt", "lt", "ge", "le", "eq", "ne", "logical_not", "bitwise_not", "logical_and",
    "logical_or", "bitwise_and", "bitwise_or", "_to_copy", "to", "sign",
))  # fmt: skip
"""Operators that take numbers in the same places."""
_SHAPED = frozenset(("full_like", "zeros_like", "ones_like", "new_zeros", "new_ones", "empty_like", "new_empty"))
"""Operators that take of a tensor its shape alone."""
Args = Sequence[Operand]
Options = dict[str, Any]


def dependent(name: str, found: Any, args: Args, kwargs: Options, asked: int) -> Any:
    """The results, with the masks of the decisions that they depend on: those of the operands, and those just made.

    An operator whose structure is not known here depends on all of its operands, of each element that it is applied to.

    Raises:
        Unknown: Complex numbers depend on decisions.
    """
    held = [one.masks for one in _flat([*args, *kwargs.values()]) if isinstance(one, Value) and one.masks is not None]
    if not held and not asked:
        return found
    if isinstance(found, list | tuple):
        return [dependent(name, one, args, kwargs, asked) for one in found]
    if isinstance(found, Complex) or any(isinstance(one, Complex) for one in _flat(args)):
        raise Unknown("a decision by data among complex numbers")
    shape = found.data.shape[1:]
    own = found.masks if found.masks is not None and found.masks.shape[1:] == shape else None
    try:
        masks = _structured(name, args, kwargs, own, shape)
    except (RuntimeError, IndexError, TypeError):
        masks = None
    if own is not None and (masks is not None or name in MOVES):
        masks = own if masks is None else masks | own
    made = mask_tensor([asked], (1,) * len(shape))
    placed = torch.zeros_like(made) if own is None else union(own, range(1, own.dim()), keep=True)
    if masks is None or bool((made & ~placed).any()):
        masks = made
        for one in held:
            masks = masks | union(one, range(2, one.dim()), keep=True).reshape(WORDS, -1, *made.shape[2:])
    return replace(found, masks=masks.expand(WORDS, *shape))


def _structured(name: str, args: Args, kwargs: Options, own: Tensor | None, shape: Sequence[int]) -> Tensor | None:
    """The union of the operands' masks in the places where the operator takes them from; None if that is not known."""
    if name in _SHAPED:
        return torch.zeros(WORDS, *shape, dtype=torch.int64)
    if name in EACH:
        parts = [_padded(_masks(one), len(shape) + 1) for one in (*args, *kwargs.values()) if isinstance(one, Value)]
        return functools.reduce(torch.bitwise_or, parts).expand(WORDS, *shape)
    if name == "index":
        first = args[0]
        return _indexed(args[1], shape) if own is not None or first.masks is None else None
    rule = _RULES.get(name)
    return None if rule is None else rule(args, kwargs, shape).expand(WORDS, *shape)


def _masks(operand: Operand) -> Tensor:
    if isinstance(operand, Value) and operand.masks is not None:
        return operand.masks
    return torch.zeros(WORDS, 1, dtype=torch.int64)


def _padded(masks: Tensor, dims: int) -> Tensor:
    """Masks with further dims of 1 in front of the tensor's."""
    return masks.reshape(*masks.shape[:2], *(1,) * (dims - masks.dim()), *masks.shape[2:])


def _over(operand: Value, dims: Any) -> Tensor:
    """The union over dims of a tensor, which stay as 1."""
    rank = len(operand.shape)
    if operand.masks is None or not rank:
        return _padded(_masks(operand), rank + 2)
    several = range(rank) if dims is None or dims == [] else dims if isinstance(dims, list | tuple) else [dims]
    return union(operand.masks, [dim % rank + 2 for dim in several], keep=True)


def _along(args: Args, kwargs: Options, shape: Sequence[int]) -> Tensor:
    return _over(args[0], args[1])


def _reduced(args: Args, kwargs: Options, shape: Sequence[int]) -> Tensor:
    found = _over(args[0], args[1] if len(args) > 1 else kwargs.get("dim"))
    return found.reshape(WORDS, found.shape[1], *shape[1:])


def _ranked(args: Args, kwargs: Options, shape: Sequence[int]) -> Tensor:
    """That of `topk`, whose dim comes after the number, or of `sort`."""
    numbers = [one for one in args[1:] if isinstance(one, int) and not isinstance(one, bool)]
    return _over(args[0], kwargs["dim"] if "dim" in kwargs else numbers[-1] if numbers else -1)


def _product(args: Args, kwargs: Options, shape: Sequence[int]) -> Tensor:
    return _over(args[0], -1) | _over(args[1], -2)


def _gathered(args: Args, kwargs: Options, shape: Sequence[int]) -> Tensor:
    return _over(args[0], args[1]) | _padded(_masks(args[2]), len(shape) + 1)


def _scattered(args: Args, kwargs: Options, shape: Sequence[int]) -> Tensor:
    found = _padded(_masks(args[0]), len(shape) + 1)
    for one in args[2:]:
        found = found | _over(one, args[1]) if isinstance(one, Value) else found
    return found


def _hot(args: Args, kwargs: Options, shape: Sequence[int]) -> Tensor:
    return _padded(_masks(args[0]), len(shape)).unsqueeze(-1)


def _indexed(indices: Sequence[Operand], shape: Sequence[int]) -> Tensor | None:
    """That of an index of the first dims."""
    if not all(isinstance(one, Value) for one in indices):
        return None
    rank = max(len(one.shape) for one in indices)
    found = functools.reduce(torch.bitwise_or, [_padded(_masks(one), rank + 2) for one in indices])
    return found.reshape(*found.shape, *(1,) * (len(shape) - 1 - rank)).expand(WORDS, *shape)


_RULES: dict[str, Callable[[Args, Options, Sequence[int]], Tensor]] = {
    **dict.fromkeys(("_softmax", "_log_softmax", "softmax", "log_softmax", "cumsum", "cumprod"), _along),
    **dict.fromkeys(("sum", "mean", "amax", "amin", "any", "all", "var", "prod", "argmax", "argmin"), _reduced),
    "var_mean": _reduced,
    "topk": lambda args, kwargs, shape: _ranked([args[0], *args[2:]], kwargs, shape),
    "sort": _ranked,
    "mv": lambda args, kwargs, shape: (_over(args[0], -1) | _padded(_over(args[1], 0), 4)).squeeze(-1),
    "addmm": lambda args, kwargs, shape: _padded(_masks(args[0]), 4) | _product(args[1:], kwargs, shape),
    "mm": _product,
    "bmm": _product,
    "gather": _gathered,
    "scatter": _scattered,
    "one_hot": _hot,
}


def _flat(args: Sequence[Any]) -> list[Any]:
    return [one for arg in args for one in (_flat(arg) if isinstance(arg, list | tuple) else [arg])]
