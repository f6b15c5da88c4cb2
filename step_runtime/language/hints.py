"""Messages about syntax outside the language, each with a hint on how to fix it."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import sympy

from step_runtime.base.errors import RuleError
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import SYMBOLS
from step_runtime.base.syntax import BUILTINS
from step_runtime.language.static_values import StreamRef, are_streams, kind
from step_runtime.primitives import PRIMITIVES, Primitive

Advice = tuple[str, str | None]
"""A message, and a hint if one is likely to help."""

_ONLY = "a program only binds names to step.NAME(config).apply(stream) and returns streams"
_IMPORT = ("imports are not part of the language", "leave it out; step, the functions and the dims are in scope")
_DATA = "use Partition and Merge, or one of the task's functions, for choices that depend on data"
_NAMES = "use lists, tuples and names"
_STATEMENTS: dict[type[ast.stmt], Advice] = {
    ast.Import: _IMPORT,
    ast.ImportFrom: _IMPORT,
    ast.FunctionDef: (
        "a program defines no functions",
        "use the task's functions; only one `def body(…)` may stand around the whole program",
    ),
    ast.ClassDef: ("a program defines no classes", "use the task's functions, which are in scope as fn_…"),
    ast.If: ("`if` is not part of the language", _DATA),
    ast.While: ("`while` is not part of the language", "loop with `for` over a list, zip, enumerate or range"),
    ast.AugAssign: ("augmented assignment is not part of the language", "bind a new name, or append to a list"),
    ast.AnnAssign: ("annotations are not part of the language", "leave the annotation out, or write it as a comment"),
    ast.For: ("`for … else` is not part of the language", "leave the `else` out"),
    ast.Pass: ("`pass` is not part of the language", "leave it out"),
    ast.Delete: ("`del` is not part of the language", "leave it out; a stream may be left unused"),
    ast.Assert: ("`assert` is not part of the language", "leave it out; types and shapes are checked anyway"),
    ast.Return: ("`return` gives no stream", "return the output streams, in the order of the task's outputs"),
}
_EXPRESSIONS: dict[type[ast.expr], Advice] = {
    ast.Lambda: ("a program has no lambdas", "use one of the task's functions: step.Map(fn=fn_…).apply(E0)"),
    ast.IfExp: ("`if` is not part of the language", _DATA),
    ast.Compare: ("comparisons are not part of the language", _DATA),
    ast.BoolOp: ("`and` and `or` are not part of the language", _DATA),
    ast.UnaryOp: ("this operator is not part of the language", "ints and dims know + - * and //"),
    ast.Dict: ("dicts are not part of the language", _NAMES),
    ast.Set: ("sets are not part of the language", _NAMES),
    ast.DictComp: ("dicts are not part of the language", _NAMES),
    ast.SetComp: ("sets are not part of the language", _NAMES),
    ast.GeneratorExp: ("generators are not part of the language", "write a list: [… for … in …]"),
    ast.NamedExpr: ("`:=` is not part of the language", "bind the name in a statement of its own"),
    ast.JoinedStr: ("strings are not values of the language", _ONLY),
    ast.Yield: ("`yield` is not part of the language", "end with `return`"),
    ast.Starred: ("a star is not part of the language here", "stars belong in lists and on the left of ="),
}

NOT_UNPACKED = "step.Copy().apply(E0) gives two streams and step.Partition a list; other primitives give one stream"
NOT_INDEXED = "a tuple's component is taken by one of the task's functions; Copy and Partition give lists of streams"
NO_STAR = "write the arguments one by one"
RETURN = "return a stream, or a flat tuple or list of streams in the order of the task's outputs"


def statement(node: ast.stmt) -> Advice:
    """For a statement outside of the language."""
    if isinstance(node, ast.FunctionDef) and node.name == "body":
        return "`def body(…)` does not stand alone", "leave out everything around it, imports and calls too"
    if not isinstance(node, ast.Expr):
        return _STATEMENTS.get(type(node), (f"{type(node).__name__.lower()} is not part of the language", _ONLY))
    if not isinstance(node.value, ast.Call):
        return "this expression does nothing", "bind it to a name, `return` it, or leave the line out"
    func = node.value.func
    if isinstance(func, ast.Attribute) and func.attr == "apply":
        return "the result of apply is not used", "bind it to a name, or leave the line out"
    return f"{_shown(func)}(…) is not a statement of the language", _ONLY


def expression(node: ast.expr) -> Advice:
    """For an expression outside of the language."""
    if isinstance(node, ast.Attribute):
        return _attribute(node)
    if isinstance(node, ast.Constant):
        hint = "names of functions and dims go without quotes" if isinstance(node.value, str) else None
        return f"{_cut(repr(node.value))} is not a value of the language; numbers are ints", hint
    return _EXPRESSIONS.get(type(node), (f"{type(node).__name__.lower()} is not part of the language", _ONLY))


def _attribute(node: ast.Attribute) -> Advice:
    if isinstance(node.value, ast.Name) and node.value.id == "step":
        if node.attr in PRIMITIVES:
            return f"step.{node.attr} is not a value", f"write {usage(node.attr)}"
        return f"step has no {node.attr}", f"functions and dims go without `step.`: write {node.attr}"
    if node.attr in ("shape", "rank", "dtype", "data", "ctx"):
        return f"a program cannot ask for .{node.attr}", "write dims by name (M, N, …) and sizes as M_value"
    return f"attribute .{_cut(node.attr)} is not part of the language", _ONLY


def target(node: ast.expr) -> Advice:
    """For the left side of an assignment that is not a name."""
    if isinstance(node, ast.Subscript):
        return "a list's element cannot be assigned", "build the list with [] and append, or with a comprehension"
    return f"{_shown(node)} cannot be assigned", "bind a new name"


def not_a_sequence(value: Any) -> str:
    """The hint for a loop, star or builtin without a sequence."""
    if isinstance(value, StreamRef):
        return "Map, Accum and Scan run over a stream's elements; loops run over lists, zip, enumerate and range"
    return f"for a number of rounds write range({value}{'' if isinstance(value, int) else '_value'})"


def unknown_name(name: str, known: Mapping[str, Any]) -> Advice:
    """For an unbound name."""
    if name == "step":
        return "step is not a value", "write step.NAME(config).apply(stream)"
    if name in PRIMITIVES:
        return f"{name} is not defined", f"write {usage(name)}"
    if name in ("torch", "np", "numpy", "F", "nn", "math"):
        hint = "a program computes only through the task's functions: step.Map(fn=fn_…).apply(E0)"
        return f"{name} is not in scope", hint
    if name in BUILTINS:
        return f"{name} is a function, not a value", f"call it: {name}(…)"
    return f"{_cut(name)} is not defined", _suggestion(name, known)


def _suggestion(name: str, known: Mapping[str, Any]) -> str:
    functions = [key for key, value in known.items() if isinstance(value, Fn)]
    streams = [key for key, value in known.items() if isinstance(value, StreamRef | list)]
    if name.startswith("fn"):
        close = _closest(name.removeprefix("fn_"), [key.removeprefix("fn_") for key in functions])
        guess = next((f"did you mean {key}? " for key in functions if close and key.endswith(close)), "")
        return f"{guess}the task's functions are {', '.join(functions)}" if functions else "the task has no functions"
    if name.removesuffix("_value") in SYMBOLS:
        dims = [key for key, value in known.items() if isinstance(value, sympy.Symbol)]
        return f"nothing in the task is of size {name.removesuffix('_value')}; its dims are {', '.join(dims) or 'ints'}"
    if name.swapcase() in known:
        return f"did you mean {name.swapcase()}?"
    # Short names are all similar: E4 is as good a guess for E5 as E is.
    close = _closest(name, [key for key in known if len(key) > 3])
    return f"did you mean {close}?" if close else f"the streams here are {', '.join(streams[-20:])}"


def _closest(name: str, known: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name[:80], list(known), n=1, cutoff=0.6)), None)


def unknown_primitive(name: str) -> Advice:
    """For `step.NAME` with a NAME that the language lacks."""
    close = _closest(name.capitalize(), PRIMITIVES)
    hint = f"did you mean {usage(close)}?" if close else f"the primitives are {', '.join(sorted(PRIMITIVES))}"
    return f"there is no primitive {_cut(name)}", hint


@cache
def usage(name: str) -> str:
    """How a primitive is written."""
    config = ", ".join(f"{key}=…" for key in PRIMITIVES[name].config_names())
    return f"step.{name}({config}).apply({PRIMITIVES[name].argument})"


def call(node: ast.Call, known: Mapping[str, Any]) -> Advice:
    """For a call that is neither `step.NAME(config).apply(…)` nor one of the few builtins."""
    match node.func:
        case ast.Attribute(value=ast.Name(id="step"), attr=name) if name in PRIMITIVES:
            return f"step.{name}(…) is applied to nothing", f"write {usage(name)}"
        case ast.Attribute(value=ast.Name(id="step"), attr=name) if not isinstance(known.get(name), Fn):
            return unknown_primitive(name)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="step"), attr=name)) if name in PRIMITIVES:
            return f"step.{name}(…) is called directly", f"write {usage(name)}"
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="step"), attr=name) if isinstance(known.get(name), Fn):
            primitive = "Accum(fn={}, b=1)" if known[name].stateful else "Map(fn={})"
            return f"function {name} is called directly", f"write step.{primitive.format(name)}.apply(stream)"
        case ast.Name(id=name) if name in PRIMITIVES:
            return f"{name} is not defined", f"write {usage(name)}"
        case ast.Attribute(attr="append"):
            return "append is not a value", "write append on a line of its own"
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if isinstance(known.get(name), StreamRef):
            return f"streams have no method {_cut(attr)}", f"write step.NAME(config).apply({name})"
    root = _root(node.func)
    if root is not None and not isinstance(node.func, ast.Name) and root not in known:
        return unknown_name(root, known)
    return f"{_shown(node.func)}(…) is not part of the language", f"{_ONLY}; the builtins are {', '.join(BUILTINS)}"


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def arithmetic(op: ast.operator, left: Any, right: Any) -> Advice:
    """For an operator or operands that the language does not support."""
    if isinstance(left, StreamRef) or isinstance(right, StreamRef):
        hint = "streams are combined by a function: step.Map(fn=fn_…).apply((E0, E1))"
        return f"this operator does not take {kind(left)} and {kind(right)}", hint
    if isinstance(left, list | tuple) or isinstance(right, list | tuple):
        return "lists are not added or multiplied", "write one list, such as [*a, *b], or a comprehension"
    if isinstance(op, ast.Div):
        return "`/` is not part of the language", "dims divide with //, which must divide evenly"
    if isinstance(op, ast.Pow):
        return "`**` is not part of the language", "write the product out, such as M*M"
    return f"this operator does not take {kind(left)} and {kind(right)}", "ints and dims know + - * and //"


def apply_usage(made: ast.Call, node: ast.Call) -> str | None:
    """The hint for an `apply` with no, several, starred or named arguments."""
    name = made.func.attr if isinstance(made.func, ast.Attribute) else ""
    if len(node.args) > 1 and PRIMITIVES[name].arity == 1 and not PRIMITIVES[name].zips:
        return f"write {usage(name)}; zip two streams into one first: step.Zip().apply((E0, E1))"
    return "two streams go as a tuple: .apply((E0, E1))" if len(node.args) > 1 else f"write {usage(name)}"


def argument(op: Primitive, found: Any, error: RuleError) -> RuleError:
    """Adds what was found and how to write it to `error`, about an argument of another form than `op` takes."""
    hint = error.hint or f"write {usage(op.name)}"
    if isinstance(found, list) and are_streams(found) and op.arity == 1:
        hint = f"it is a list: take one by index, or write [{usage(op.name).replace('E0', 's')} for s in E1]"
    parts = f" ({', '.join(map(kind, found))})" if isinstance(found, list | tuple) and 0 < len(found) < 5 else ""
    return RuleError(error.code, error.message, [f"found {kind(found)}{parts}"], hint)


def _shown(node: ast.expr) -> str:
    return _cut(ast.unparse(node))


def _cut(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "…"
