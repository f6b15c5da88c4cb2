"""Recurrences: what the statements of a loop change, and the flows that hold however often they are repeated."""

from __future__ import annotations

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from pipeline.lms.embedded.dependence.paths import Flow, replaced, union
from step_runtime.base.syntax import parse_python

_ROUNDS = 6
"""How often a loop's flows are replaced in themselves, at most."""


def solved(after: Mapping[int, Flow], before: Mapping[int, Flow], position: Flow) -> dict[int, Flow]:
    """The smallest flows of states that hold before and after every step of a recurrence.

    A state that depends on itself and on nothing else counts: it is a position.
    """
    found = dict(before)
    for turn in range(_ROUNDS):
        newer = {state: union(found[state], replaced(flow, found)) for state, flow in after.items()}
        if newer != found:
            found = newer
            continue
        idle = [s for s, flow in after.items() if not found[s] and any(path.leaf == s for path in flow)]
        if not idle or turn == _ROUNDS - 1:
            break
        found |= dict.fromkeys(idle, position)
    return found


def assigned(body: Iterable[ast.stmt]) -> list[str]:
    """The names that statements change, also by setting or appending elements."""
    found: dict[str, None] = {}
    for node in (node for statement in body for node in ast.walk(statement)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                found[name] = None
            case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                found[base_of(node)] = None
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend" | "insert")):
                found[name] = None
    return list(found)


def base_of(node: ast.expr) -> str:
    """The variable that an element or an attribute belongs to."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


_MOST_ROUNDS = 12
_CONSTANT = re.compile(r"Constant\(value=[^()]*\)")


def loop_counts(code: str, weights: Collection[str] = ()) -> set[int]:
    """How often the loops of a piece of code run, where it says so itself: over a few values, or up to a number.

    A loop over the names of `weights` is left out: each function has its own weights, so none is repeated. Where the
    body has statements that differ in constants only, what these do runs as many times as often.
    """
    counts = set()
    for node in (node for statement in statements_of(code) for node in ast.walk(statement)):
        match node:
            case (
                ast.For(iter=ast.Tuple(elts=values) | ast.List(elts=values))
                | ast.comprehension(iter=ast.Tuple(elts=values) | ast.List(elts=values))
            ) if not any(_mentions(value, weights) for value in values):
                counts |= {len(values), len(values) * _alike(node)}
            case ast.For(iter=ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(count))])):
                counts |= {count, count * _alike(node)}
    return {count for count in counts if 1 < count <= _MOST_ROUNDS}


def _alike(loop: ast.For | ast.comprehension) -> int:
    """How many statements of a loop's body are the same but for constants; 1 if none are."""
    body = loop.body if isinstance(loop, ast.For) else []
    return max(Counter(_CONSTANT.sub("", ast.dump(statement)) for statement in body).values(), default=1)


def _mentions(node: ast.expr, names: Collection[str]) -> bool:
    """Whether a piece of code mentions one of these names as a string."""
    return any(isinstance(part, ast.Constant) and part.value in names for part in ast.walk(node))


@lru_cache(maxsize=1024)
def statements_of(code: str) -> tuple[ast.stmt, ...]:
    """The statements of a snippet, which may `return`; none if it is not Python."""
    try:
        return tuple(parse_python(textwrap.dedent(code)).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
