"""What the evaluator says of forms that the language does not have: the finding, and a hint that mends it."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import sympy

from step_runtime.functions import Fn
from step_runtime.primitives import PRIMITIVES

BUILTINS = ("zip", "enumerate", "range", "len", "reversed", "list", "tuple")

Told = tuple[str, str | None]

_ONLY = "a program only binds names to step.NAME(config).apply(stream) and returns streams"
_STATEMENTS: dict[type[ast.stmt], Told] = {
    ast.Import: ("imports are not part of the language", "step, the functions and the dims are in scope; leave the import out"),
    ast.ImportFrom: ("imports are not part of the language", "step, the functions and the dims are in scope; leave the import out"),
    ast.FunctionDef: ("a program defines no functions", "use the task's functions; only `def body(…)` may stand around the whole program"),
    ast.ClassDef: ("a program defines no classes", "use the task's functions; they are in scope as fn_…"),
    ast.If: ("`if` is not part of the language", "what depends on data is done by Partition and Merge, or inside a function"),
    ast.While: ("`while` is not part of the language", "loop with `for` over a list, zip, enumerate or range"),
    ast.AugAssign: ("augmented assignment is not part of the language", "write name = name + …, or list.append(x)"),
    ast.AnnAssign: ("annotations are not part of the language", "leave the annotation out, or write it as a comment"),
    ast.For: ("`for … else` is not part of the language", "leave the `else` out"),
    ast.Pass: ("`pass` is not part of the language", "leave it out"),
    ast.Delete: ("`del` is not part of the language", "leave it out; a stream may be left unused"),
}  # fmt: skip
_EXPRESSIONS: dict[type[ast.expr], Told] = {
    ast.Lambda: ("a program has no lambdas", "use one of the task's functions: step.Map(fn=fn_…).apply(E0)"),
    ast.IfExp: ("`if` is not part of the language", "what depends on data is done by Partition and Merge"),
    ast.Compare: ("comparisons are not part of the language", None),
    ast.BoolOp: ("`and` and `or` are not part of the language", None),
    ast.Dict: ("dicts are not part of the language", "use lists, tuples and names"),
    ast.Set: ("sets are not part of the language", "use lists, tuples and names"),
    ast.DictComp: ("dicts are not part of the language", "use lists, tuples and names"),
    ast.SetComp: ("sets are not part of the language", "use lists, tuples and names"),
    ast.GeneratorExp: ("generators are not part of the language", "write a list: [… for … in …]"),
    ast.NamedExpr: ("`:=` is not part of the language", "bind the name in a statement of its own"),
    ast.JoinedStr: ("strings are no values of the language", None),
    ast.Await: ("`await` is not part of the language", None),
    ast.Yield: ("`yield` is not part of the language", "end with `return`"),
}  # fmt: skip


def statement(node: ast.stmt) -> Told:
    """For a statement outside of the language."""
    if isinstance(node, ast.Expr):
        if isinstance(node.value, ast.Call):
            func = node.value.func
            if isinstance(func, ast.Attribute) and func.attr == "apply":
                return "the result of apply is not used", "bind it to a name, or leave the line out"
            return f"{_shown(func)}(…) is no statement of the language", _ONLY
        return "this expression does nothing", _ONLY
    return _STATEMENTS.get(type(node), (f"{type(node).__name__.lower()} is not part of the language", _ONLY))


def expression(node: ast.expr) -> Told:
    """For an expression outside of the language."""
    if isinstance(node, ast.Attribute):
        return _attribute(node)
    if isinstance(node, ast.Constant):
        return f"{node.value!r} is no value of the language; numbers are ints", None
    return _EXPRESSIONS.get(type(node), (f"{type(node).__name__.lower()} is not part of the language", _ONLY))


def _attribute(node: ast.Attribute) -> Told:
    if isinstance(node.value, ast.Name) and node.value.id == "step" and node.attr in PRIMITIVES:
        return f"step.{node.attr} is not a value", f"write step.{node.attr}(…).apply(stream)"
    if node.attr in ("shape", "rank", "dtype", "data", "ctx"):
        return f"a program cannot ask for .{node.attr}", "write dims by name (M, N, …) and sizes as M_value"
    return f"attribute .{node.attr} is not part of the language", _ONLY


def unknown_name(name: str, known: Mapping[str, Any]) -> Told:
    """For a name that nothing bound."""
    if name in PRIMITIVES:
        return f"{name} is not defined", f"write step.{name}"
    if name in ("torch", "np", "numpy", "F", "nn", "math"):
        return f"{name} is not in scope: a program computes only through the task's functions", "use step.Map(fn=fn_…).apply(E0)"
    if name in BUILTINS:
        return f"{name} is a function, not a value", f"call it: {name}(…)"
    return f"{name} is not defined", _suggestion(name, [key for key in known if key != "step"])


def _suggestion(name: str, known: Iterable[str]) -> str | None:
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if name.startswith("fn"):
        functions = [key for key in known if key.startswith("fn")]
        listed = f"; the task's functions are {', '.join(functions)}" if functions else ""
        return f"did you mean {close[0]}?{listed}" if close else listed.removeprefix("; ") or None
    return f"did you mean {close[0]}?" if close else f"in scope are {', '.join(known[:20])}"


def unknown_primitive(name: str, known: Iterable[str]) -> Told:
    """For `step.NAME` with a NAME that the language lacks."""
    close = difflib.get_close_matches(name.capitalize(), list(known), n=1, cutoff=0.6)
    hint = f"did you mean step.{close[0]}?" if close else f"the primitives are {', '.join(known)}"
    return f"there is no primitive {name}", hint


def call(node: ast.Call, known: Mapping[str, Any]) -> Told:
    """For a call that is neither `step.NAME(config).apply(…)` nor one of the few builtins."""
    func = node.func
    match func:
        case ast.Attribute(value=ast.Name(id="step"), attr=name) if name in PRIMITIVES:
            return f"step.{name}(…) is applied to nothing", f"write step.{name}(…).apply(stream)"
        case ast.Attribute(value=ast.Name(id="step"), attr=name):
            return unknown_primitive(name, PRIMITIVES)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="step"), attr=name)):
            return f"step.{name}(…) is called directly", f"write step.{name}(…).apply(stream)"
        case ast.Attribute(value=ast.Name(id=name)) if name not in known:
            return unknown_name(name, known)
        case ast.Name(id=name) if isinstance(known.get(name), Fn):
            primitive = "Accum" if known[name].stateful else "Map"
            config = f"fn={name}, b=1" if known[name].stateful else f"fn={name}"
            return f"function {name} is called directly", f"write step.{primitive}({config}).apply(stream)"
        case ast.Name(id=name) if name in PRIMITIVES:
            return f"{name} is not defined", f"write step.{name}(…).apply(stream)"
        case ast.Name(id=name) if name not in known:
            return f"{name}(…) is not part of the language", f"calls are step.NAME(config).apply(stream) and {', '.join(BUILTINS)}"
    return f"{_shown(func)}(…) is not part of the language", _ONLY


def arithmetic(op: ast.operator, left: Any, right: Any) -> Told:
    """For an operator or operands that the language does not take."""
    if isinstance(op, ast.Div):
        return "`/` is not part of the language", "dims divide with //, which must leave no rest"
    if isinstance(left, list | tuple) or isinstance(right, list | tuple):
        return "lists are not added", "write one list, or append to it"
    kinds = f"{kind(left)} and {kind(right)}"
    hint = "streams are combined by a function: step.Map(fn=fn_…).apply((E0, E1))" if "stream" in kinds else None
    return f"this operator does not take {kinds}", hint


def integer(op: ast.operator, left: int, right: int) -> int:
    """`left op right` on ints, for the four operators of the language."""
    if isinstance(op, ast.Add):
        return left + right
    if isinstance(op, ast.Sub):
        return left - right
    return left * right if isinstance(op, ast.Mult) else left // right


def kind(value: Any) -> str:
    """What a value of the program is, in words."""
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, Fn):
        return f"the function {value.label}"
    if isinstance(value, int | sympy.Integer):
        return f"the int {value}"
    return f"the dim {value}" if isinstance(value, sympy.Expr) else "a stream"


def holds(value: Any, wanted: object) -> bool:
    """Whether a value is `wanted`, or a sequence that holds it at any depth."""
    return value is wanted or (isinstance(value, list | tuple) and any(holds(part, wanted) for part in value))


def _shown(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 40 else text[:37] + "…"
