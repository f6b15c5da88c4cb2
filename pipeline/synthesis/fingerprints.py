"""Fingerprints: what a function does, independent of names, to recognize it in other tasks.

A fingerprint is a set of features: every operation, and every operation with the origins of its arguments. Locals are
replaced by their values, weights and sizes by their kind, so that renaming changes nothing. Fingerprints are
compared by the features that they share and by their types without dims; nothing is run or evaluated.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from step_runtime.base.functions import Fn
from step_runtime.base.syntax import parse_python
from step_runtime.base.types import Buffer, DType, Multihot, STuple
from step_runtime.tasks.task import Task

_OTHER_TYPES = 0.8
"""Similarity of functions with the same code and number of arguments but other types,"""
_OTHER_ARITY = 0.4
"""and of those with other numbers of arguments."""
_COMMUTES = frozenset(("Add", "Mult", "maximum", "minimum"))
_MODULES = frozenset(("torch", "F", "nn", "functional", "math"))


@dataclass(frozen=True)
class Fingerprint:
    """What a function does (`features`), and its types without dims."""

    features: frozenset[str]
    inputs: tuple[str, ...]
    output: str
    stateful: bool


@lru_cache(maxsize=1 << 16)
def similarity(one: Fingerprint, other: Fingerprint) -> float:
    """The similarity of two functions, in [0, 1]; 1 where only names differ."""
    if one.stateful != other.stateful:
        return 0.0
    code = jaccard(one.features, other.features)
    if (one.inputs, one.output) == (other.inputs, other.output):
        return code
    return code * (_OTHER_TYPES if len(one.inputs) == len(other.inputs) else _OTHER_ARITY)


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """The Jaccard similarity of two sets; 1 for empty ones."""
    union = len(one | other)
    return len(one & other) / union if union else 1.0


def fingerprints_of(task: Task, fns: Mapping[str, Fn]) -> dict[str, Fingerprint]:
    """The fingerprints of a task's functions, by label."""
    found = {}
    for spec in task.fns:
        fn = fns[spec.func_name]
        init = () if spec.init is None else (f"from {[float(value) for value in spec.init]}",)
        inputs = tuple(kind_of(part) for part in getattr(fn.input, "components", (fn.input,)))
        features = features_of(spec.apply).union(init)
        found[fn.label] = Fingerprint(features, inputs, kind_of(fn.output), spec.init is not None)
    return found


def kind_of(dtype: DType) -> str:
    """A type without its dims."""
    if isinstance(dtype, STuple):
        return f"[{','.join(kind_of(part) for part in dtype.components)}]"
    if isinstance(dtype, Buffer):
        return f"{kind_of(dtype.elem)}{len(dtype.dims)}"
    return "m" if isinstance(dtype, Multihot) else "s"


@lru_cache(maxsize=4096)
def features_of(code: str) -> frozenset[str]:
    """The features of a snippet; only its text if it is not Python."""
    try:
        statements = parse_python(textwrap.dedent(code)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset((code,))
    reader = _Reader()
    for statement in statements:
        reader.read(statement)
    return frozenset(reader.features)


def commutes(code: str) -> bool:
    """Whether a snippet does no more than to apply an operation to its two inputs whose order does not matter."""
    return any(features_of(code) == {name, f"{name}(input0, input1)", f"out0({name})"} for name in _COMMUTES)


class _Reader:
    """Walks one snippet; `features` are those found."""

    def __init__(self) -> None:
        self.features: set[str] = set()
        self._names: dict[str, str] = {}

    def read(self, statement: ast.stmt) -> None:
        """Processes one statement."""
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._names[name] = self._head(value)
            case ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.Tuple(elts=values)) if len(parts) == len(values):
                for part, value in zip(parts, values, strict=True):
                    self._bind(part, self._head(value))
            case ast.Assign(targets=[ast.Tuple(elts=parts)], value=value):
                whole = self._head(value)
                for place, part in enumerate(parts):
                    self._bind(part, f"{whole}{place}")
            case ast.Return(value=ast.List(elts=parts)):
                self.features.update(f"out{place}({self._head(part)})" for place, part in enumerate(parts))
            case ast.Return(value=ast.expr() as value) | ast.Expr(value=value):
                self.features.add(f"out({self._head(value)})")
            case _:
                self.features.add(type(statement).__name__)

    def _bind(self, target: ast.expr, head: str) -> None:
        if isinstance(target, ast.Name):
            self._names[target.id] = head

    def _head(self, node: ast.expr) -> str:
        """The origin of an expression: an operation, an argument, a weight, a size, or a number."""
        match node:
            case ast.Constant(value=value):
                return repr(value)
            case ast.Name(id=name):
                return self._names.get(name, "size" if name.endswith("_value") else name)
            case ast.Subscript(value=ast.Name(id="input_data")):
                return "data"
            case ast.Subscript(value=ast.Name(id="input" | "state" as name), slice=ast.Constant(value=int(place))):
                return f"{name}{place}"
            case ast.Call():
                return self._call(node)
            case ast.BinOp(left=left, op=op, right=right):
                return self._operation(type(op).__name__, [left, right])
            case ast.Attribute(value=whole, attr=name):
                return name if _is_module(whole) else self._operation(name, [whole])
        parts = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        return self._operation(type(node).__name__, parts)

    def _call(self, node: ast.Call) -> str:
        """A function's name, and that of a method, whose receiver is its first argument."""
        match node.func:
            case ast.Attribute(value=receiver, attr=name):
                return self._operation(name, [*([] if _is_module(receiver) else [receiver]), *node.args])
        return self._operation(self._head(node.func), node.args)

    def _operation(self, name: str, arguments: list[ast.expr]) -> str:
        heads = [self._head(argument) for argument in arguments]
        if name in _COMMUTES:
            heads.sort()
        self.features |= {name, f"{name}({', '.join(heads)})"}
        return name


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in _MODULES
