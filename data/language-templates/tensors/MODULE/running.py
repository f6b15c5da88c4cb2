"""A program over rows of tensors. Import here what your toolchain needs: where programs run, no file can be read."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from types import SimpleNamespace

import torch
from torch import Tensor

from pipeline.tensors import BUILTINS, FILE, Runner, compile_python, printed


class OutOfBounds(Exception):
    """An access to a row that a tensor does not have."""


class Handle:
    """What a program has of a tensor, so that it computes by the functions of the language alone."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def row(self, index: int) -> Tensor:
        """Every access to memory is checked: an index of -1 is an error, as on a device."""
        if not 0 <= index < len(self._tensor):
            raise OutOfBounds(f"row {index} of a tensor of {len(self._tensor)} rows")
        return self._tensor[index]

    def __len__(self) -> int:
        return len(self._tensor)


def _load(handle: Handle, index: int) -> Tensor:
    return handle.row(index).clone()


def _store(handle: Handle, index: int, values: Tensor | float) -> None:
    row = handle.row(index)
    row.copy_(torch.as_tensor(values).expand(row.shape))


TILE = SimpleNamespace(
    rows=len, load=_load, store=_store, exp=torch.exp, sqrt=torch.sqrt, maximum=torch.maximum,
    max=torch.amax, sum=torch.sum,
)  # fmt: skip


class Program(Runner):
    """A program that is ready to run."""

    def __init__(self, tree: ast.Module, text: str) -> None:
        super().__init__(tree, text)
        self._code = compile_python(printed(tree), FILE)  # the tree that was checked, and never the text
        self._name = next(node.name for node in tree.body if isinstance(node, ast.FunctionDef))

    def run(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """The outputs, as the program leaves them; what it raises becomes a finding at its line."""
        space = {"__builtins__": {name: getattr(builtins, name) for name in BUILTINS}, "tile": TILE}
        exec(self._code, space)
        space[self._name](*map(Handle, (*inputs, *outputs)))
        return outputs
