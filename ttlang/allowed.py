"""The part of Python that a TT-Lang program may be, checked on its syntax tree, without running any of it.

Programs have no attribute but those listed, no name but their own and those listed, and no way to define a class, a
lambda or an undecorated function: so that what runs can reach the simulator's functions and nothing else.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from pipeline.languages import Diagnostic, Span
from step_runtime.base.syntax import parse_python

LONGEST = 20_000
"""Characters of a program."""
MOST_SHOWN = 8
"""Diagnostics of one check."""
HIGHEST_POWER, LARGEST_INT = 8, 2**31

BUILTINS = ("abs", "enumerate", "float", "int", "len", "max", "min", "range", "zip")
BLOCK = ("broadcast", "fill", "mask", "mask_posinf", "squeeze", "transpose", "unsqueeze", "where")
MATH = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "celu", "clamp", "cos", "elu", "eq", "exp",
    "exp2", "expm1", "floor", "frac", "gelu", "gt", "hardsigmoid", "hardtanh", "leaky_relu", "log", "logp1", "lt",
    "max", "min", "ne", "neg", "prelu", "recip", "reduce_max", "reduce_sum", "relu", "relu_max", "relu_min", "round",
    "rsqrt", "rsub", "selu", "sigmoid", "sign", "signbit", "silu", "sin", "softplus", "softsign", "sqrt", "square",
    "tan", "tanh", "threshold", "trunc",
)  # fmt: skip
OPERATION, KERNELS = "ttl.operation", ("ttl.compute", "ttl.datamovement")
PATHS = frozenset({
    "ttl.copy", "ttl.grid_size", "ttl.make_dataflow_buffer_like", "ttl.node", "ttl.GroupTransfer",
    *(f"ttl.block.{name}" for name in BLOCK), *(f"ttl.math.{name}" for name in MATH),
})  # fmt: skip
METHODS = frozenset({"add", "pop", "push", "reserve", "shape", "store", "wait", "wait_all"})
"""Attributes of values."""
RESERVED = frozenset({"ttl", "ttnn", "torch", "grid", *BUILTINS})
"""Names that a program does not bind."""
_STATEMENTS = (ast.Assign, ast.AugAssign, ast.For, ast.If, ast.With, ast.Expr, ast.Pass, ast.Return)
_EXPRESSIONS = (
    ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Call, ast.Attribute,
    ast.Subscript, ast.Slice, ast.Tuple, ast.List,
)  # fmt: skip
_OPERATORS = (
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult, ast.USub, ast.UAdd, ast.Not,
    ast.And, ast.Or, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Load, ast.Store,
)  # fmt: skip
_REST = (ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.keyword, ast.withitem)


class Checked(NamedTuple):
    """A program's tree, without imports, annotations and docstrings; None where it does not parse. What is wrong."""

    tree: ast.Module | None
    found: tuple[Diagnostic, ...]

    @property
    def operation(self) -> ast.FunctionDef:
        """The operation of a program in which nothing is wrong."""
        assert self.tree is not None
        return next(node for node in self.tree.body if isinstance(node, ast.FunctionDef))


def checked(text: str) -> Checked:
    """The tree of a program, and what the allow-list refuses in it."""
    if len(text) > LONGEST:
        return Checked(None, (Diagnostic("parse", "length", f"expected at most {LONGEST:,} characters"),))
    try:
        tree = parse_python(text)
        found = tuple(_findings(tree))
        return Checked(_Bare().visit(tree), found[:MOST_SHOWN])
    except SyntaxError as error:
        span = Span(error.lineno, error.offset or 1, error.lineno, (error.offset or 1) + 1) if error.lineno else None
        return Checked(None, (Diagnostic("parse", "syntax", str(error.msg), span),))
    except (ValueError, MemoryError, RecursionError) as error:
        return Checked(None, (Diagnostic("parse", "syntax", f"not a program: {str(error) or 'nested too deep'}"),))


def key(text: str) -> str:
    """A digest of the tree up to renaming, imports, annotations and comments; of the text where there is no tree."""
    tree = checked(text).tree
    if tree is None:
        return f"text {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"
    try:
        _Renamed(_bound(tree)).visit(tree)
        return f"tree {hashlib.sha256(ast.dump(tree).encode('utf-8', 'surrogatepass')).hexdigest()}"
    except RecursionError:
        return f"text {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def paths(tree: ast.AST) -> Iterator[str]:
    """What of the language is used: dotted names such as `ttl.math.exp`, methods, and `@` for a matrix product."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield _path(node) or node.attr
        elif isinstance(node, ast.MatMult):
            yield "@"


def _findings(tree: ast.Module) -> Iterator[Diagnostic]:
    bound = set(_bound(tree))
    yield from _of_module(tree)
    inner: set[ast.AST] = set()
    for node in ast.walk(tree):
        _is_text(node)
        if isinstance(node, ast.arg | ast.FunctionDef):
            annotation = node.returns if isinstance(node, ast.FunctionDef) else node.annotation
            inner |= {*ast.walk(annotation)} if annotation else set()
            if annotation and not isinstance(annotation, ast.Name | ast.Attribute | ast.Constant):
                yield _refused(annotation, "annotation", "an annotation is a name, such as `ttnn.Tensor`")
        if isinstance(node, ast.Attribute) and (path := _path(node)):
            inner |= {*ast.walk(node.value)}
            if path not in PATHS and path not in (OPERATION, *KERNELS) and node not in inner:
                yield _refused(node, "attribute", f"`{path}` is not of the language", "the prompt lists what is")
        elif node not in inner:
            yield from _of_node(node, bound)


def _of_module(tree: ast.Module) -> Iterator[Diagnostic]:
    operations = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if len(operations) != 1:
        message = f"expected one function decorated with `@ttl.operation(grid=...)`, found {len(operations)}"
        yield Diagnostic("static", "operation", message, _span(operations[1]) if operations[1:] else None)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield from _of_operation(node)
        elif not (_is_import(node) or _is_text(node) or isinstance(node, ast.Assign)):
            yield _refused(node, "statement", "expected imports of ttl, constants, and one operation")
        elif isinstance(node, ast.Assign) and any(isinstance(each, ast.Call) for each in ast.walk(node)):
            yield _refused(node, "statement", "a constant calls nothing")


def _of_operation(node: ast.FunctionDef) -> Iterator[Diagnostic]:
    if [_decorator(each) for each in node.decorator_list] != [OPERATION]:
        yield _refused(node, "operation", "expected the decorator `@ttl.operation(grid=(1, 1))` and no other")
    kernels = [each for each in ast.walk(node) if isinstance(each, ast.FunctionDef) and each is not node]
    kinds = [_decorator(each) for kernel in kernels for each in kernel.decorator_list]
    for kernel in kernels:
        if len(kernel.decorator_list) != 1 or _decorator(kernel.decorator_list[0]) not in KERNELS:
            yield _refused(kernel, "kernel", "expected the decorator `@ttl.compute()` or `@ttl.datamovement()`")
    if sorted(filter(None, kinds)) != ["ttl.compute", "ttl.datamovement", "ttl.datamovement"]:
        message = f"expected one compute and two datamovement kernels, found {len(kernels)} functions"
        yield _refused(node, "kernels", message)


def _of_node(node: ast.AST, bound: set[str]) -> Iterator[Diagnostic]:
    """What is wrong with one node, apart from those below it."""
    if not isinstance(node, (*_STATEMENTS, *_EXPRESSIONS, *_OPERATORS, *_REST)) and not _is_import(node):
        yield _refused(node, "syntax", f"`{type(node).__name__}` is not of the language")
    elif isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load) and node.id not in bound and node.id not in (*BUILTINS, "grid"):
            yield _refused(node, "name", f"`{node.id}` is not defined", "only ttl, few builtins and your own names are")
        elif not isinstance(node.ctx, ast.Load):
            yield from _of_binding(node, node.id)
    elif isinstance(node, ast.arg):
        yield from _of_binding(node, node.arg)
    elif isinstance(node, ast.FunctionDef):
        yield from _of_binding(node, node.name)
        yield from _of_arguments(node)
    elif isinstance(node, ast.Attribute):
        if node.attr not in METHODS or not isinstance(node.ctx, ast.Load):
            yield _refused(node, "attribute", f"`.{node.attr}` is not of the language")
    elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        yield _refused(node, "syntax", "blocks and tensors are written by `store` and `ttl.copy` only")
    else:
        yield from _of_value(node)


def _of_value(node: ast.AST) -> Iterator[Diagnostic]:
    if isinstance(node, ast.Constant) and not _is_constant(node):
        yield _refused(node, "constant", "expected a number, True, False or None")
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        power = node.right.operand if isinstance(node.right, ast.UnaryOp) else node.right
        value = power.value if isinstance(power, ast.Constant) else None
        if not isinstance(value, int | float) or value > HIGHEST_POWER:
            yield _refused(node, "power", f"expected an exponent that is a number of at most {HIGHEST_POWER}")
    elif isinstance(node, ast.For) and node.orelse:
        yield _refused(node, "syntax", "a loop has no `else`")
    elif isinstance(node, ast.keyword) and node.arg is None:
        yield _refused(node.value, "syntax", "arguments are not unpacked")
    elif isinstance(node, ast.Return) and node.value is not None:
        yield _refused(node, "syntax", "nothing is returned: results are copied to the output tensors")


def _of_binding(node: ast.AST, name: str) -> Iterator[Diagnostic]:
    if name in RESERVED or name.startswith("__"):
        yield _refused(node, "name", f"`{name}` is reserved; choose another name")


def _of_arguments(node: ast.FunctionDef) -> Iterator[Diagnostic]:
    given = node.args
    if given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs or given.defaults:
        yield _refused(node, "arguments", "a function has plain arguments without defaults")
    if given.args and not any(_decorator(each) == OPERATION for each in node.decorator_list):
        yield _refused(node, "arguments", "a kernel has no arguments: it uses the operation's")


def _is_constant(node: ast.Constant) -> bool:
    value = node.value
    if isinstance(value, str):
        return value in ("full", "auto") or getattr(node, "is_text", False)
    return value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) <= LARGEST_INT)


def _is_text(node: ast.AST) -> bool:
    """Whether a statement is a text, such as a docstring, which is left out."""
    found = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    if found:
        node.value.is_text = True  # type: ignore[attr-defined]
    return found


def _is_import(node: ast.AST) -> bool:
    """Whether a statement imports the language, which is left out."""
    if isinstance(node, ast.alias):
        return node.name in ("ttl", "ttnn", "torch") and node.asname is None
    return isinstance(node, ast.Import) and all(map(_is_import, node.names))


def _decorator(node: ast.AST) -> str | None:
    return _path(node.func) if isinstance(node, ast.Call) else None


def _path(node: ast.AST) -> str | None:
    """The dotted name of something of `ttl`."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join(["ttl", *reversed(names)]) if isinstance(node, ast.Name) and node.id == "ttl" else None


def _bound(tree: ast.AST) -> dict[str, int]:
    """The names that a program binds, in the order in which they first occur."""
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.setdefault(node.id, len(found))
        elif isinstance(node, ast.arg):
            found.setdefault(node.arg, len(found))
        elif isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, len(found))
    return found


def _span(node: ast.AST) -> Span | None:
    line = getattr(node, "lineno", None)
    if line is None:
        return None
    column = getattr(node, "col_offset", 0) + 1
    return Span(line, column, line, node.end_col_offset + 1 if node.end_lineno == line else column + 1)  # type: ignore[attr-defined]


def _refused(node: ast.AST, code: str, message: str, hint: str | None = None) -> Diagnostic:
    return Diagnostic("static", code, message, _span(node), (), hint)


class _Bare(ast.NodeTransformer):
    """Leaves out what has no meaning: imports, annotations, texts."""

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return ast.copy_location(ast.Pass(), node) if _is_text(node) else self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node


class _Renamed(ast.NodeTransformer):
    """Names a program's own names by the order in which they occur; names that it never binds are none of them."""

    def __init__(self, order: dict[str, int]) -> None:
        self._names = {name: f"v{number}" for name, number in order.items() if name not in RESERVED}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._names.get(node.id) or (node.id if node.id in RESERVED else f"unbound {node.id}")
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self._names.get(node.arg, node.arg)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self._names.get(node.name, node.name)
        return self.generic_visit(node)
