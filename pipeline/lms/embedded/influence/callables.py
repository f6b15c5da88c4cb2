"""What code can call beside the calls of PyTorch: modules, its own functions, and functions on parts."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.lms.embedded.influence.branches import Names


@dataclass(frozen=True)
class Module:
    """A module such as `nn.Softmax(-1)`, which is called later."""

    name: str
    args: tuple[Any, ...]
    named: Mapping[str, Any]


@dataclass(frozen=True)
class Closure:
    """A function or a lambda of the code, with the names that it can see."""

    arguments: ast.arguments
    defaults: Mapping[str, Any]
    body: tuple[ast.stmt, ...] | ast.expr
    names: Names = field(hash=False, compare=False)


@dataclass(frozen=True)
class Mapped:
    """A function that is applied to each part of its operands, as `torch.vmap` makes it."""

    function: Any
    in_dims: Any
    out_dims: int
