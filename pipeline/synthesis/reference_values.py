"""What a reference computes on its way: every tensor that its operators make, and the steps within one call of PyTorch.

Where one expression runs several times, in a loop, its tensors count together, too: a Scan emits them. A tensor that
operators have written into counts as it is when it is read next. Where tensors of different sizes were concatenated, as
a cache and what is new, the parts of later tensors along that dim count. A reference that calls `softmax` never names
the maximum, the exponentials or their sum; a program may make each, so they count as well.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from step_runtime.tasks.task import Task
from step_runtime.verification.instance import TaskInstance

_MOST_NUMBERS = 2**18
"""Numbers of a tensor that is recorded."""
_MOST_CALLS = 256
"""The calls of one expression that are recorded."""
_PASSES = (2, 3, 4)
"""Passes of an outer loop whose values are landmarks of their own."""
_MOST_ALONE = 8
"""The first calls of one expression that are landmarks of their own."""
_Site: TypeAlias = tuple[tuple[str, str, int, int], ...]
"""A chain of calls: file, function, instruction and line of each, the innermost first."""


class ReferenceRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records what the operators of an author's code give, by the place in the code."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.made: dict[tuple[_Site, str, int], list[Tensor]] = {}
        self._logits = (torch.empty(0), torch.empty(0))
        self._written: set[int] = set()
        self._joined: dict[int, list[int]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise torch imports its compiler, which takes a second, to keep it from compiling this class.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        place = _place()
        read = self._read(func._schema, args) if place else []
        result = func(*args, **(kwargs or {}))
        if not place:
            return result
        results = result if isinstance(result, tuple | list) else [result]
        steps = self._steps(str(func), results, args, kwargs or {})
        made = [*results, *steps, *read]
        parts = [part for tensor in made if isinstance(tensor, Tensor) for part in self._parts(tensor)]
        if str(func).startswith("aten.cat"):
            self._note_joined(*args, **(kwargs or {}))
        for number, tensor in enumerate([*made, *parts]):
            if isinstance(tensor, Tensor) and 0 < tensor.numel() <= _MOST_NUMBERS:
                calls = self.made.setdefault((place, str(func), number), [])
                if len(calls) < _MOST_CALLS:
                    calls.append(_numbers(tensor))
        return result

    def _note_joined(self, tensors: Sequence[Tensor], dim: int = 0) -> None:
        sizes = [tensor.shape[dim] for tensor in tensors if tensor.dim()]
        if len(set(sizes)) > 1:
            self._joined[sum(sizes)] = sizes

    def _parts(self, tensor: Tensor) -> Iterator[Tensor]:
        """The parts of a tensor along dims that are as long as what was concatenated."""
        for dim, size in enumerate(tensor.shape):
            if size in self._joined:
                yield from torch.split(tensor, self._joined[size], dim)

    def _read(self, schema: Any, args: Sequence[Any]) -> list[Tensor]:
        """What an operator is about to read and others have written into, which is the result of none as it is now."""
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        if schema.is_mutable:
            operands = zip(schema.arguments, args, strict=False)
            written = [arg for spec, arg in operands if spec.is_write and isinstance(arg, Tensor)]
            self._written.update(map(_storage, written))
            return []
        views = any(returned.alias_info for returned in schema.returns)
        read = [] if views else [tensor for tensor in tensors if _storage(tensor) in self._written]
        self._written.difference_update(map(_storage, read))
        return [_numbers(tensor) for tensor in read]

    def _steps(self, operator: str, results: Sequence[Any], args: Any, kwargs: Any) -> Iterator[Tensor]:
        """An operator's steps; of a cross entropy the logits at the targets, too; and those on concatenated parts."""
        if operator.startswith("aten._log_softmax"):
            self._logits = results[0], args[0]
        if operator.startswith("aten.nll_loss") and self._logits[0].numel() == args[0].numel():
            # The loss may read a copy of them in another shape.
            logp, logits = (part.reshape(args[0].shape) for part in self._logits)
            if torch.equal(logp, args[0]):
                yield from steps_of(operator, results, (logits, *args[1:]), kwargs)
        yield from steps_of(operator, results, args, kwargs)
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        sizes = next((self._joined[size] for each in tensors for size in each.shape if size in self._joined), [])
        for part in range(len(sizes)):
            own = [self._part(arg, part) if isinstance(arg, Tensor) else arg for arg in args]
            yield from steps_of(operator, results, own, kwargs)

    def _part(self, tensor: Tensor, number: int) -> Tensor:
        """One of the parts of a tensor along the last dim that is as long as what was concatenated."""
        dims = [dim for dim, size in enumerate(tensor.shape) if size in self._joined]
        return torch.split(tensor, self._joined[tensor.shape[dims[-1]]], dims[-1])[number] if dims else tensor


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _numbers(tensor: Tensor) -> Tensor:
    """The flat numbers of a tensor as it is now: a later operator may write into it."""
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return real.detach().to(torch.float64).flatten().clone()


def _place() -> _Site:
    """The chain of calls in the author's code, which has file names such as `<task: global>`; empty outside it."""
    found = []
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if ": " in frame.f_code.co_filename:
            found.append((frame.f_code.co_filename, frame.f_code.co_name, frame.f_lasti, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


class ReferenceValue(NamedTuple):
    """A flat value that the reference computes, and the line of the task file that it does so in; empty if unknown."""

    line: str
    value: Tensor


def reference_values(instance: TaskInstance, seed: int) -> list[ReferenceValue]:
    """What the reference computes for one input: the outputs; single results; then those of a loop together.

    Raises:
        TaskCodeError: The reference fails.
    """
    instance.sample_inputs(seed)
    with ReferenceRecorder() as recorder:
        outputs = instance.reference()
    found = [ReferenceValue("", part.to(torch.float64).flatten()) for parts in outputs for part in parts]
    for (place, *_), calls in recorder.made.items():
        values = [calls[-1]]
        if len(calls) > 1:
            values += [torch.cat(calls), *calls[:_MOST_ALONE]]
            # A loop in a loop: what each pass of the outer one computes.
            for passes in (times for times in _PASSES if len(calls) % times == 0 and len(calls) > times):
                size = len(calls) // passes
                values += [torch.cat(calls[start : start + size]) for start in range(0, len(calls), size)]
        line = _line(instance.task, place)
        found += [ReferenceValue(line, value) for value in values]
    return found


def _line(task: Task, place: _Site) -> str:
    """The line of a data_transform that a chain of calls starts in, with its text."""
    file, _, _, number = place[-1]
    found = re.search(r"data_transform (\d+) of output (\w+)>$", file)
    for spec in task.outputs if found else ():
        if found and spec.name == found[2]:
            lines = spec.data_transform[int(found[1])].splitlines()
            if 0 < number <= len(lines):
                return f"output {spec.name}, line {number}: {lines[number - 1].strip()}"
    return ""


def steps_of(operator: str, results: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The intermediate values of an operator, such as `aten.sort.default`, that has these results; none if unknown."""
    steps = _STEPS.get(operator.rpartition(".")[0])
    try:
        return list(steps(results, *args, **kwargs)) if steps else []
    except (RuntimeError, TypeError, IndexError):  # called with arguments that the steps do not know
        return []


def _softmax(_: Sequence[Any], x: Tensor, dim: int | list[int], *__: Any) -> Iterator[Tensor]:
    """With and without the subtraction of the maximum."""
    top = x.amax(dim, keepdim=True)
    yield from (x.logsumexp(dim), x.exp(), x.exp().sum(dim), top, x - top, (x - top).exp(), (x - top).exp().sum(dim))


def _sort(results: Sequence[Any], x: Tensor, dim: int = -1, *_: Any, **kwargs: Any) -> Iterator[Tensor]:
    """The rank of each number."""
    yield results[1].argsort(kwargs.get("dim", dim)).to(torch.float64)


def _picked(_: Sequence[Any], x: Tensor, target: Tensor, *__: Any) -> Iterator[Tensor]:
    """Each row's number at its target."""
    dim = min(x.ndim - 1, 1)
    yield x.gather(dim, target.clamp(min=0).unsqueeze(dim))


def _centered(_: Sequence[Any], x: Tensor, dim: list[int] | None = None, *__: Any, **___: Any) -> Iterator[Tensor]:
    """Mean, distances from it, their squares and the sum of these."""
    dims = tuple(dim) if dim else tuple(range(x.ndim))
    mean = x.mean(dims, keepdim=True)
    square = (x - mean).square()
    yield from (mean, x - mean, square, square.sum(dims), square.mean(dims), square.mean(dims).sqrt(), x.square())


def _rsqrt(_: Sequence[Any], x: Tensor) -> Iterator[Tensor]:
    yield x.sqrt()


def _logistic(_: Sequence[Any], x: Tensor, *__: Any) -> Iterator[Tensor]:
    """Of a sigmoid, and of what multiplies by one."""
    yield from (x.sigmoid(), (-x).exp(), (-x).exp() + 1)


def _layer_norm(_: Sequence[Any], x: Tensor, shape: list[int], *__: Any) -> Iterator[Tensor]:
    yield from _centered(_, x, list(range(-len(shape), 0)))


def _group_norm(_: Sequence[Any], x: Tensor, __: Any, ___: Any, n: int, *sizes: Any) -> Iterator[Tensor]:
    yield from _centered(_, x.reshape(n, sizes[2], -1), [-1])


def _norm(_: Sequence[Any], x: Tensor, order: float = 2, dim: list[int] | None = None, *__: Any) -> Iterator[Tensor]:
    powers = x.abs() ** order
    yield from (powers, powers.sum(tuple(dim) if dim else tuple(range(x.ndim))))


def _attention(
    _: Sequence[Any], q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0, causal: bool = False, **kwargs: Any
) -> Iterator[Tensor]:
    scores = q @ k.transpose(-1, -2) * (kwargs.get("scale") or q.shape[-1] ** -0.5)
    yield scores
    mask = kwargs.get("attn_mask")
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -torch.inf)
    yield from (scores, torch.softmax(scores, -1), *_softmax(_, scores, -1))


_STEPS: dict[str, Callable[..., Iterator[Tensor]]] = {
    "aten._softmax": _softmax,
    "aten._safe_softmax": _softmax,
    "aten._log_softmax": _softmax,
    "aten.logsumexp": _softmax,
    "aten.sort": _sort,
    "aten.nll_loss_forward": _picked,
    "aten.nll_loss2d_forward": _picked,
    "aten.rsqrt": _rsqrt,
    "aten.sigmoid": _logistic,
    "aten.silu": _logistic,
    "aten.std": _centered,
    "aten.var": _centered,
    "aten.native_layer_norm": _layer_norm,
    "aten.native_group_norm": _group_norm,
    "aten.linalg_vector_norm": _norm,
    "aten._scaled_dot_product_flash_attention_for_cpu": _attention,
}
