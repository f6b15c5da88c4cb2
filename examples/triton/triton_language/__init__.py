"""Triton, as a language of kernels: run by its interpreter on a processor, or on a GPU that the user names.

docs/executed-languages.md walks through this package.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.languages import Diagnostic
from pipeline.tensors.allowed import AllowList, refused
from pipeline.tensors.language import TensorLanguage

if TYPE_CHECKING:
    from pipeline.tensors.judging import Runner

REVISION = "1"
_FUNCTIONS = (
    "abs", "advance", "arange", "argmax", "argmin", "atomic_add", "atomic_max", "atomic_min", "broadcast_to", "cdiv",
    "ceil", "clamp", "cos", "cumsum", "div_rn", "dot", "erf", "exp", "exp2", "expand_dims", "fdiv", "floor", "fma",
    "full", "load", "log", "log2", "make_block_ptr", "max", "maximum", "min", "minimum", "multiple_of", "num_programs",
    "permute", "program_id", "range", "reshape", "rsqrt", "sigmoid", "sin", "softmax", "sort", "sqrt", "sqrt_rn",
    "static_range", "store", "sum", "trans", "where", "zeros", "zeros_like",
)  # fmt: skip
_TYPES = ("bfloat16", "float16", "float32", "int1", "int32", "int64")


def _structure(tree: ast.Module) -> Iterator[Diagnostic]:
    """Kernels, and a last function that launches them with the task's tensors."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for node in functions[:-1]:
        if [ast.unparse(each) for each in node.decorator_list] != ["triton.jit"]:
            yield refused(node, "kernel", "expected the decorator `@triton.jit` and no other")
    if len(functions) < 2 or functions[-1].decorator_list:
        message = "expected kernels with `@triton.jit`, and last a function without decorators that launches them"
        yield refused(functions[-1] if functions else tree, "launcher", message)
    before: set[str] = set()
    for function in functions:
        for each in ast.walk(function):
            if isinstance(each, ast.FunctionDef) and each is not function:
                yield refused(each, "kernel", "a function stands in no other")
            elif isinstance(each, ast.Name) and each.id in {node.name for node in functions} - before:
                yield refused(each, "kernel", f"`{each.id}` is not defined before `{function.name}`")
        before.add(function.name)


class Triton(TensorLanguage):
    """Programs are kernels with a function that launches them."""

    name = "triton"
    suffix = ".py"
    folder = Path(__file__).parent
    preload: Sequence[str] = ("triton_language.kernels",)
    devices: Sequence[str] = ("cpu", "cuda")
    tolerances: Mapping[str, tuple[float, float]] = {"fp32": (1e-4, 1e-4), "fp16": (1e-2, 1e-3)}
    allowed = AllowList(
        imports=frozenset({"torch", "triton", "triton.language as tl"}),
        paths=frozenset({
            "triton.cdiv", "triton.next_power_of_2", *(f"tl.{name}" for name in (*_FUNCTIONS, *_TYPES)),
        }),
        methods=frozenset({"numel", "shape", "stride", "to"}),
        structure=_structure,
        decorators=frozenset({"triton.jit"}),
        annotations=frozenset({"tl.constexpr"}),
        nodes=(ast.BitAnd, ast.BitOr, ast.BitXor, ast.Invert),
        texts=frozenset({"ieee", "tf32"}),
    )  # fmt: skip

    @property
    def environment(self) -> Mapping[str, str]:  # type: ignore[override]
        """Triton decides by it whether `triton.jit` makes an interpreted function, when it is first imported."""
        return {"TRITON_INTERPRET": "1" if self.device == "cpu" else "0"}

    @cached_property
    def version(self) -> str:
        """Of this adapter and Triton, on the device."""
        return f"{REVISION}, triton {version('triton')}, {self.device}"

    def runner(self) -> type[Runner]:
        """Triton's own."""
        os.environ.update(self.environment)
        from triton_language.kernels import Kernels

        found: type[Runner] = Kernels
        return found


TRITON = Triton()
