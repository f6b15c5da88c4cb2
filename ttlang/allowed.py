"""The part of Python that a TT-Lang program may be, checked on its syntax tree, without running any of it.

Programs have no attribute but those listed, no name but their own and those listed, and no way to define a class, a
lambda or an undecorated function: so that what runs can reach the simulator's functions and nothing else.
"""

from __future__ import annotations

import ast
import hashlib
import symtable
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
RESERVED = frozenset({"ttl", "ttnn", "torch", "grid", "print", "_node", *BUILTINS})
"""Names that a program does not bind, those among them that the simulator puts into its functions."""
_NODES = (
    ast.Assign, ast.AugAssign, ast.For, ast.If, ast.With, ast.Expr, ast.Pass, ast.Return, ast.Name, ast.Constant,
    ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Call, ast.Attribute, ast.Subscript, ast.Slice,
    ast.Tuple, ast.List, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult, ast.USub,
    ast.UAdd, ast.Not, ast.And, ast.Or, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Load, ast.Store,
    ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.keyword, ast.withitem,
)  # fmt: skip
_ANNOTATIONS = (ast.Name, ast.Attribute, ast.Constant)


class Checked(NamedTuple):
    """A program's tree, without imports, annotations and docstrings; None where it does not parse. What is wrong."""

    tree: ast.Module | None
    found: tuple[Diagnostic, ...]


def checked(text: str) -> Checked:
    """The tree of a program, and what the allow-list refuses in it."""
    if len(text) > LONGEST:
        return Checked(None, (Diagnostic("parse", "length", f"expected at most {LONGEST:,} characters"),))
    try:
        tree = _bare(parse_python(text))
        found = tuple(_findings(tree)) or tuple(_of_scopes(tree))
        return Checked(tree, found[:MOST_SHOWN])
    except SyntaxError as error:
        span = Span(error.lineno, error.offset or 1, error.lineno, (error.offset or 1) + 1) if error.lineno else None
        return Checked(None, (Diagnostic("parse", "syntax", str(error.msg), span),))
    except (ValueError, MemoryError, RecursionError) as error:
        return Checked(None, (Diagnostic("parse", "syntax", f"not a program: {str(error) or 'nested too deep'}"),))


def printed(tree: ast.Module) -> ast.Module:
    """The tree as it reads when it is printed, with the places of the program: what was checked and nothing else.

    Raises:
        ValueError: It does not read as it was.
    """
    read = parse_python(ast.unparse(tree))
    if ast.dump(read) != ast.dump(tree):
        raise ValueError("its tree is not what it prints")
    for new, old in zip(ast.walk(read), ast.walk(tree), strict=True):
        ast.copy_location(new, old)
    return read


def key(text: str) -> str:
    """A digest of the tree up to renaming, imports, annotations and comments; of the text where there is no tree."""
    tree = checked(text).tree
    try:
        words = f"text {text}" if tree is None else f"tree {ast.dump(_renamed(tree))}"
    except RecursionError:
        words = f"text {text}"
    return f"{words[:4]} {hashlib.sha256(words.encode('utf-8', 'surrogatepass')).hexdigest()}"


def paths(tree: ast.AST) -> set[str]:
    """What of the language is used: dotted names such as `ttl.math.exp`, methods, and `@` for a matrix product."""
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.MatMult)]
    return {_path(node) or node.attr if isinstance(node, ast.Attribute) else "@" for node in used}


def _findings(tree: ast.Module) -> Iterator[Diagnostic]:
    bound = set(_bound(tree))
    yield from _of_module(tree)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    decorators = [each.func for node in functions for each in node.decorator_list if isinstance(each, ast.Call)]
    inner: set[ast.AST] = set()  # of paths: attributes and names, of which Python shares none between places
    for node in ast.walk(tree):
        if node in inner:
            continue
        if isinstance(node, ast.Attribute) and (path := _path(node)):
            inner |= {each for each in ast.walk(node.value) if isinstance(each, ast.Attribute | ast.Name)}
            if path not in PATHS and not (path in (OPERATION, *KERNELS) and node in decorators):
                yield _refused(node, "attribute", f"`{path}` is not of the language", "the prompt lists what is")
        else:
            yield from _of_node(node, bound)


def _of_scopes(tree: ast.Module) -> Iterator[Diagnostic]:
    """Names that Python looks up outside of the program, as no scope around them binds them."""
    tables = [symtable.symtable(ast.unparse(tree), "<program>", "exec")]
    known = {*BUILTINS, "ttl", "grid", *(each.get_name() for each in tables[0].get_symbols() if each.is_local())}
    for table in tables:
        tables += table.get_children()
        for name in sorted(each.get_name() for each in table.get_symbols() if each.is_global()):
            if name not in known:
                places = [each for each in ast.walk(tree) if isinstance(each, ast.Name) and each.id == name]
                yield _refused(places[0], "name", f"`{name}` is not defined in `{table.get_name()}`")


def _of_module(tree: ast.Module) -> Iterator[Diagnostic]:
    operations = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if len(operations) != 1:
        message = f"expected one function decorated with `@ttl.operation(grid=...)`, found {len(operations)}"
        yield Diagnostic("static", "operation", message, _span(operations[1]) if operations[1:] else None)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield from _of_operation(node)
        elif not isinstance(node, ast.Assign | ast.Pass):
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
    if (isinstance(node, ast.FunctionDef) and node.returns) or (isinstance(node, ast.arg) and node.annotation):
        yield _refused(node, "annotation", "an annotation is a name, such as `ttnn.Tensor`")
    if not isinstance(node, _NODES):
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
        return value in ("full", "auto")
    return value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) <= LARGEST_INT)


def _is_import(node: ast.AST) -> bool:
    """Whether a statement imports the language, which is left out."""
    names = node.names if isinstance(node, ast.Import) else []
    return bool(names) and all(each.name in ("ttl", "ttnn", "torch") and each.asname is None for each in names)


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
        name = node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else ""
        name = node.arg if isinstance(node, ast.arg) else node.name if isinstance(node, ast.FunctionDef) else name
        if name:
            found.setdefault(name, len(found))
    return found


def _span(node: ast.AST) -> Span | None:
    line = getattr(node, "lineno", None)
    if line is None:
        return None
    column = getattr(node, "col_offset", 0) + 1
    return Span(line, column, line, node.end_col_offset + 1 if node.end_lineno == line else column + 1)  # type: ignore[attr-defined]


def _refused(node: ast.AST, code: str, message: str, hint: str | None = None) -> Diagnostic:
    return Diagnostic("static", code, message, _span(node), (), hint)


def _bare(tree: ast.Module) -> ast.Module:
    """Leaves out what has no meaning: imports of the language, annotations that are names, texts such as docstrings."""
    tree.body = [each for each in tree.body if not _is_import(each)]
    for node in ast.walk(tree):
        for value in vars(node).values():
            if isinstance(value, list):
                value[:] = [ast.copy_location(ast.Pass(), each) if _idle(each) else each for each in value]
        if isinstance(node, ast.FunctionDef) and isinstance(node.returns, _ANNOTATIONS):
            node.returns = None
        if isinstance(node, ast.arg) and isinstance(node.annotation, _ANNOTATIONS):
            node.annotation = None
    return tree


def _idle(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return _is_import(node) or (isinstance(value, ast.Constant) and isinstance(value.value, str))


def _renamed(tree: ast.Module) -> ast.Module:
    """Names a program's own names by the order in which they occur; names that it never binds are none of them."""
    names = {name: f"v{number}" for name, number in _bound(tree).items() if name not in RESERVED}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id) or (node.id if node.id in RESERVED else f"unbound {node.id}")
        elif isinstance(node, ast.arg):
            node.arg = names.get(node.arg, node.arg)
        elif isinstance(node, ast.FunctionDef):
            node.name = names.get(node.name, node.name)
    return tree
