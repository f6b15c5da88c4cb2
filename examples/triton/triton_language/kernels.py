"""A program of Triton: its kernels, compiled or interpreted, and its launcher.

The launcher never has a tensor, only a `Handle` with its shape, so that it can't compute on the host. The interpreter
reads and writes any address that a kernel gives it; here each access is checked against the task's tensors first.
"""

from __future__ import annotations

import ast
import builtins
import linecache
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy
import triton
import triton.experimental.gluon.language  # what Triton imports late, which a program apart could not
import triton.language as tl
from torch import Tensor
from triton.runtime import interpreter

from pipeline.tensors.allowed import BUILTINS, printed
from pipeline.tensors.judging import FILE, Runner
from step_runtime.base.syntax import compile_python, parse_python

DEVICE = "cpu" if triton.knobs.runtime.interpret else "cuda"
_BUILTINS = {name: getattr(builtins, name) for name in BUILTINS}
_HOST = SimpleNamespace(
    jit=lambda kernel: kernel, cdiv=lambda a, b: -(-a // b), next_power_of_2=lambda n: 1 << (n - 1).bit_length()
)
"""What a launcher has of `triton`: its kernels are given to it."""
_native = interpreter._interpreter


class OutOfBounds(Exception):
    """An access to memory that is no tensor's."""


class Handle:
    """What a launcher has of a tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the tensor."""
        return tuple(self._tensor.shape)

    def stride(self, dim: int) -> int:
        """That of the tensor."""
        return self._tensor.stride(dim)

    def numel(self) -> int:
        """That of the tensor."""
        return self._tensor.numel()


class _Launch:
    """A kernel as its launcher has it: `kernel[grid](...)` with the handles' tensors."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*args: Any, **kwargs: Any) -> None:
            self._kernel[grid](*map(_tensor, args), **{name: _tensor(value) for name, value in kwargs.items()})

        return launch


def _tensor(value: Any) -> Any:
    return value._tensor if isinstance(value, Handle) else value


class _Bounded:
    """The interpreter's access to memory, at the elements of these tensors only."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._spans = [(each.data_ptr(), each.numel() * each.element_size(), each.element_size()) for each in tensors]

    def __getattr__(self, name: str) -> Any:
        return getattr(_native, name)

    def load(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        """As the interpreter's own."""
        self._check(pointers, mask, numpy.dtype(dtype).itemsize)
        return _native.load(pointers, mask, other, dtype)

    def store(self, pointers: Any, value: Any, mask: Any) -> Any:
        """As the interpreter's own."""
        self._check(pointers, mask, value.itemsize)
        return _native.store(pointers, value, mask)

    def atomic_rmw(self, kind: Any, pointers: Any, value: Any, mask: Any, order: Any) -> Any:
        """As the interpreter's own."""
        self._check(pointers, mask, value.itemsize)
        return _native.atomic_rmw(kind, pointers, value, mask, order)

    def atomic_cas(self, pointers: Any, *_: Any) -> Any:
        """Not of the language."""
        raise OutOfBounds("`atomic_cas` is not of the language")

    def _check(self, pointers: Any, mask: Any, size: int) -> None:
        pointers, mask = numpy.broadcast_arrays(pointers, mask)
        at = pointers[mask.astype(bool)].astype(numpy.uint64)
        inside = numpy.zeros(at.shape, dtype=bool)
        for start, length, element in self._spans:
            inside |= (at >= start) & (at + numpy.uint64(size) <= start + length) & (size == element)
        if not inside.all():
            first = int(at[~inside][0])
            start, length, element = min(self._spans, key=lambda span: abs(first - span[0]))
            place = f"element {(first - start) // element} of a tensor of {length // element}"
            raise OutOfBounds(f"an access at {place}; is its mask missing or wrong?")


class Kernels(Runner):
    """A program that is ready to run."""

    def __init__(self, tree: ast.Module, text: str) -> None:
        super().__init__(tree, text)
        # Triton reads the text of kernels again: it finds what was checked, as that is printed.
        self._printed = ast.unparse(printed(tree))
        again = parse_python(self._printed)
        places = [pair for pair in zip(ast.walk(again), ast.walk(tree), strict=True) if hasattr(pair[0], "lineno")]
        self._lines: dict[int, int] = {new.lineno: old.lineno for new, old in reversed(places)}  # type: ignore[attr-defined]
        *self._kernels, self._launcher = [node.name for node in again.body if isinstance(node, ast.FunctionDef)]
        self._code = compile_python(again, FILE)

    def line(self, number: int) -> int:
        """The program's line for a printed one."""
        return self._lines.get(number, 0)

    def run(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """The outputs that the kernels store."""
        tensors = [each.to(DEVICE).contiguous() for each in (*inputs, *outputs)]
        linecache.cache[FILE] = (len(self._printed), None, self._printed.splitlines(keepends=True), FILE)
        interpreter._interpreter = _Bounded(tensors)
        device: dict[str, Any] = {"__builtins__": _BUILTINS, "__name__": "program", "tl": tl, "triton": triton}
        exec(self._code, device)
        host: dict[str, Any] = {"__builtins__": _BUILTINS, "__name__": "program", "tl": tl, "triton": _HOST}
        exec(self._code, host)
        host.update({name: _Launch(device[name]) for name in self._kernels})
        host[self._launcher](*map(Handle, tensors))
        return [each.cpu() for each in tensors[len(inputs) :]]
