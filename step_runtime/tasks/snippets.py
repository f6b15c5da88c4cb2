"""Compiles the task author's snippets.

They are trusted like a test file; candidate programs are never compiled here. For a run in float64 the float types
that a snippet hard-codes are read as float64, so that neither side of a comparison rounds early: all narrower ones, or
float32 alone in a task that names formats, where rounding to a narrower one is meant.
"""

from __future__ import annotations

import ast
import textwrap
from collections import UserDict
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any, TypeAlias

from step_runtime.base.syntax import compile_python, parse_python

_TENSORS = {"float": "FloatTensor", "half": "HalfTensor", "bfloat16": "BFloat16Tensor"}

Widening: TypeAlias = frozenset[str]
"""Names of float types that are read as float64."""
FP32: Widening = frozenset({"float", "float32"})
NARROW: Widening = FP32 | {"float16", "half", "bfloat16"}
NOTHING: Widening = frozenset()

Namespace = dict[str, Any]

_KEPT = 1024
"""Snippets whose code is kept: each is run at every size of its task, and code is never changed."""


class RecordedReads(UserDict[str, Any]):
    """The tensors by name; `read` has the names that snippets looked up.

    For trials only: a function that reads anything but a plain dict is not traced, and runs element by element.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.read: set[str] = set()
        super().__init__(data)

    def __getitem__(self, name: str) -> Any:
        """Looks a tensor up."""
        self.read.add(name)
        return super().__getitem__(name)


def widening(*, float64: bool, formats: bool) -> Widening:
    """What is read as float64: for a run in float64, and in a task that names formats other than fp32."""
    return NOTHING if not float64 else FP32 if formats else NARROW


class _Widen(ast.NodeTransformer):
    """`torch.float32` to `torch.float64`, `.float()` to `.double()`, and their like."""

    def __init__(self, names: Widening) -> None:
        self._names = names
        self._tensors = {tensor for method, tensor in _TENSORS.items() if method in names}

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.attr in self._names:
            node.attr = "float64"
        elif node.attr in self._tensors:
            node.attr = "DoubleTensor"
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Attribute) and node.func.attr in self._names & _TENSORS.keys():
            node.func.attr = "double"
        return self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        for alias in node.names:
            if node.module == "torch" and alias.name in self._names:
                alias.name, alias.asname = "float64", alias.asname or alias.name
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and node.value.removeprefix("torch.") in self._tensors:
            node.value = "torch.DoubleTensor"
        return node


@lru_cache(_KEPT)
def compile_function(body: str, parameters: tuple[str, ...], name: str, *, widen: Widening) -> CodeType:
    """Code that binds `name` to a function with these parameters and this body."""
    module = parse_python(f"def {name}({', '.join(parameters)}): pass")
    definition = module.body[0]
    if isinstance(definition, ast.FunctionDef):
        definition.body = parse_python(textwrap.dedent(body)).body or definition.body
    return _compiled(module, name, widen=widen)


@lru_cache(_KEPT)
def compile_block(source: str, name: str, *, widen: Widening) -> CodeType:
    """Code of statements, run for the names that they bind."""
    return _compiled(parse_python(textwrap.dedent(source)), name, widen=widen)


@lru_cache(_KEPT)
def compile_value(source: str, name: str, result: str, *, widen: Widening) -> CodeType:
    """Code of statements that binds the value of the last one to `result`.

    Raises:
        ValueError: The last statement has no value.
    """
    module = parse_python(textwrap.dedent(source))
    last = module.body[-1] if module.body else None
    target = ast.Name(result, ast.Store())
    if isinstance(last, ast.Expr):
        module.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)
    elif isinstance(last, ast.Assign):
        last.targets.append(target)
    else:
        raise ValueError("the last line has no value")
    return _compiled(module, name, widen=widen)


def widened(module: ast.Module, names: Widening) -> ast.Module:
    """The code with these float types read as float64."""
    result: ast.Module = _Widen(names).visit(module)
    return result


def _compiled(module: ast.Module, name: str, *, widen: Widening) -> CodeType:
    if widen:
        module = widened(module, widen)
    return compile_python(ast.fix_missing_locations(module), f"<{name}>")


def run(code: CodeType, namespace: Namespace) -> None:
    """Runs an author's code in `namespace`, which is its globals, so that comprehensions see it too."""
    exec(code, namespace)


def bind_function(code: CodeType, name: str, namespace: Namespace) -> Callable[..., Any]:
    """The function that `compile_function` describes, with `namespace` as its globals."""
    bound: Namespace = {}
    exec(code, namespace, bound)
    function: Callable[..., Any] = bound[name]
    return function
