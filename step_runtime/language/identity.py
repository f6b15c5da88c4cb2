"""Decides which texts are the same program, so that they share a verdict.

A verdict is a function of the checked graph at every set of sizes, and, if something is wrong, of the wording and the
places in the text. Two texts therefore share a verdict

- if they differ only in comments and empty lines (`code_of`), for any verdict and except for its places; or
- if both evaluate without a diagnostic at every set of sizes and give the same graphs (`graphs`): the same
  primitives with the same configurations, in the same order, on the same streams. Such a verdict names no variable, and
  its places follow from the graph.

`skeleton` finds candidates without parsing, as parsing takes longest; it decides nothing.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import re
import textwrap
from dataclasses import dataclass

from step_runtime.base.syntax import parse_python
from step_runtime.language.parser import LINE_END, evaluate, read
from step_runtime.program.graph import Program
from step_runtime.tasks.further_sizes import further_sets
from step_runtime.tasks.scope import Scope, static_scope
from step_runtime.tasks.task import Task

_UNTAME = re.compile("[\f\v\0\x1a\ufeff\ud800-\udfff]")
"""Characters that may make a text unreadable anywhere, or do not count as blank."""
_QUOTED = re.compile("[\"'`\\\\]")
"""Characters that may put a `#` in a string, continue a line, or make a fence."""
_WORD = re.compile(r"(?<![\w.])[^\W\d]\w*")
_HEADER = re.compile(r"^[ \t]*def[ \t]+body[ \t]*\([^()\n]*\)[^\n]*:[ \t]*\n", re.MULTILINE)


@dataclass(frozen=True)
class Code:
    """A text without comments and empty lines, and the number of each of its lines in the whole text."""

    text: str
    lines: tuple[int, ...]


@functools.lru_cache(maxsize=4096)
def code_of(text: str) -> Code:
    """The text without comments and empty lines; unchanged if a `#` may not begin a comment."""
    whole = LINE_END.split(text)
    if not _UNTAME.search(text):
        stripped = [(line.partition("#")[0].rstrip(" \t"), number) for number, line in enumerate(whole, start=1)]
        kept = [(line, number) for line, number in stripped if line]
        code = "\n".join(line for line, _ in kept)
        if not _QUOTED.search(code):
            return Code(code, tuple(number for _, number in kept))
    return Code(text, tuple(range(1, len(whole) + 1)))


@functools.lru_cache(maxsize=4096)
def skeleton(text: str) -> str:
    """A digest that most texts of one program share: names are numbered in the order of their appearance."""
    numbers: dict[str, str] = {}
    code = _dedented(_HEADER.sub("", code_of(text).text, count=1))
    numbered = _WORD.sub(lambda match: numbers.setdefault(match[0], f"{len(numbers)}"), code)
    return hashlib.sha256(numbered.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _dedented(text: str) -> str:
    """As `textwrap.dedent`, which compiles the indentation to a pattern: that of a long one takes seconds."""
    lines = text.split("\n")
    indent = min((len(line) - len(line.lstrip(" \t")) for line in lines if line), default=0)
    return "\n".join(line[indent:] for line in lines) if indent else text


@dataclass(frozen=True, eq=False)
class KnownScopes:
    """What programs of a task may use, at each set of sizes; further ones included, wherever they may be run."""

    scopes: tuple[Scope, ...]


def known_scopes(task: Task) -> KnownScopes | None:
    """The task's scopes, as its text alone gives them; None if only running its `global` gives them."""
    if task.global_ is not None and not _is_literal(task, task.global_):
        return None
    sets = (*task.size_sets(), *further_sets(task))
    return KnownScopes(tuple(static_scope(task, sizes=sizes) for sizes in sets))


@functools.lru_cache(maxsize=512)
def graphs(text: str, known: KnownScopes) -> tuple[Program, ...] | None:
    """The program's graph at each set of sizes; None if there is a diagnostic at one of them."""
    source = read(text)
    programs = []
    for scope in known.scopes:
        program, found = evaluate(source, scope)
        if found:
            return None
        programs.append(program)
    return tuple(programs)


def _is_literal(task: Task, code: str) -> bool:
    """Whether `static_scope` sees every effect of `global` on the scope.

    Sizes and lists of functions are literal, each set once; no other statement mentions them, or anything that could
    reach them otherwise.
    """
    symbols = {*task.symbols()}
    functions = {spec.func_name for spec in task.fns}
    watched = symbols | functions | {f"{name}_value" for name in symbols} | {"ctx", "step"} | _REFLECTION
    bound: list[str] = []
    others: list[ast.stmt] = []
    for statement in parse_python(textwrap.dedent(code)).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int(size))) if (
                name.removesuffix("_value") in symbols and name.endswith("_value") and not isinstance(size, bool)
            ):
                bound.append(name)
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id="ctx"), slice=ast.Name(id=name))], value=ast.Name(id=value)
            ) if value == f"{name}_value" and name in symbols:
                # The same size as the name, which is bound before.
                if value not in bound:
                    return False
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id="ctx"), slice=ast.Name(id=name))],
                value=ast.Constant(value=int(size)),
            ) if name in symbols and not isinstance(size, bool):
                # Bound once, here or by its name.
                bound.append(f"{name}_value")
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.List(elts=parts) | ast.Tuple(elts=parts)) if (
                parts and all(isinstance(part, ast.Name) and part.id in functions for part in parts)
            ):
                if name in watched:
                    return False
                bound.append(name)
            case _:
                others.append(statement)
    watched |= {*bound}
    words = {word for statement in others for word in _words(statement)}
    return len(set(bound)) == len(bound) and not words & watched


_REFLECTION = {"globals", "locals", "vars", "exec", "eval", "setattr", "sys", "*", "inspect", "__builtins__"}


def _words(statement: ast.stmt) -> set[str]:
    """Every name, attribute, imported name and string in a statement."""
    found: set[str] = set()
    for node in ast.walk(statement):
        for value in vars(node).values():
            if isinstance(value, str):
                found |= {value}
    return found
