"""Recurrences: what the statements of a loop change, and the flows that hold however often they are repeated."""

from __future__ import annotations

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from pipeline.lms.embedded.dependence.paths import Flow, is_scaled, maximal, replaced, union, unscaled
from step_runtime.base.syntax import parse_python
from step_runtime.tasks.task import Task

_ROUNDS = 6
"""How often a loop's flows are replaced in themselves, at most."""


def solved(after: Mapping[int, Flow], before: Mapping[int, Flow], position: Flow) -> dict[int, Flow]:
    """The smallest flows of states that hold before and after every step of a recurrence.

    A state that depends on itself and on nothing else counts: it is a position. Where steps multiply states by constant
    factors, these leave no trace, as each step does so again.
    """
    if any(path.leaf in after and is_scaled(path) for flow in after.values() for path in flow):
        after, before = ({state: unscaled(flow) for state, flow in flows.items()} for flows in (after, before))
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
    return {state: maximal(flow) for state, flow in found.items()}


def assigned(body: Iterable[ast.stmt]) -> list[str]:
    """The names that statements change, also by setting or appending elements, and in place."""
    found: dict[str, None] = {}
    for node in (node for statement in body for node in ast.walk(statement)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = None
        else:
            found |= dict.fromkeys(_altered(node))
    return list(found)


@lru_cache(maxsize=1024)
def altered(body: tuple[ast.stmt, ...]) -> tuple[str, ...]:
    """The names of which statements change the value itself, not only what they stand for."""
    return tuple(dict.fromkeys(name for part in body for node in ast.walk(part) for name in _altered(node)))


def _altered(node: ast.AST) -> list[str]:
    match node:
        case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
            return [base_of(node)]
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend" | "insert")):
            return [name]
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name) as called, args=args, keywords=keywords):
            named = {keyword.arg: keyword.value for keyword in keywords}
            owners = [named["out"]] if "out" in named else []
            if in_place(name):
                tensor = called.value if isinstance(called, ast.Attribute) and not is_module(called.value) else None
                owners += args[:1] if tensor is None else [tensor]
            elif name in CHANGED:
                owners += [*args[1:3], *(named[key] for key in STATISTICS if key in named)]
            return [name for name in map(viewed, owners) if name]
    return []


CHANGED = frozenset(("batch_norm", "instance_norm"))
"""Calls that change arguments without saying so in their name,"""
STATISTICS = ("running_mean", "running_var")
"""which are the second and the third."""


VIEWS = frozenset(
    """
    view reshape transpose swapaxes t permute narrow select diagonal squeeze unsqueeze flatten unflatten movedim view_as
    expand expand_as detach data T mT real unfold
    """.split()  # noqa: SIM905 (a list of so many strings would be harder to read)
)
"""Methods and attributes of which the result shares its elements with the tensor."""


def viewed(node: ast.expr) -> str:
    """The variable that an expression is, or is a part or a view of."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Subscript(value=owner):
            return viewed(owner)
        case ast.Attribute(value=owner, attr=name) | ast.Call(func=ast.Attribute(value=owner, attr=name)):
            return viewed(owner) if name in VIEWS or in_place(name) else ""
    return ""


def in_place(name: str) -> bool:
    """Whether a method or a call changes what it is called on."""
    return name[-1:] == "_" and name[-2:-1] not in ("", "_")


_MODULES = frozenset(("torch", "F", "nn", "functional", "linalg", "math", "special", "np", "numpy"))


def is_module(node: ast.expr) -> bool:
    """Whether an expression names a module of PyTorch or Python."""
    return base_of(node) in _MODULES


def base_of(node: ast.expr) -> str:
    """The variable that an element or an attribute belongs to."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


_MOST_ROUNDS = 12
_WORD = re.compile(r"\w+")
_CONSTANT = re.compile(r"Constant\(value=[^()]*\)")


def loop_counts(code: str, weights: Collection[str] = (), numbers: Mapping[str, int] | None = None) -> set[int]:
    """How often the loops of a piece of code run, where it says so itself: over a few values, or up to a number.

    A number may be one of these `numbers`, or a name that the code sets. A loop over the names of `weights` is left
    out: each function has its own weights, so none is repeated. A loop that begins with 1 may follow a round.
    Where the body has statements that differ in constants only, what these do runs as many times as often.
    """
    counts = set()
    known = {**(numbers or {}), **numbers_in(code)}
    for node in (node for statement in statements_of(code) for node in ast.walk(statement)):
        if isinstance(node, ast.For | ast.comprehension):
            for count in _rounds(node, weights, known):
                counts |= {count, count * _alike(node)}
    return {count for count in counts if 1 < count <= _MOST_ROUNDS}


def _rounds(loop: ast.For | ast.comprehension, weights: Collection[str], known: Mapping[str, int]) -> set[int]:
    match loop.iter:
        case ast.Tuple(elts=values) | ast.List(elts=values) if not any(_mentions(value, weights) for value in values):
            return {len(values)}
        case ast.Call(
            func=ast.Name(id="zip" | "enumerate" | "reversed"),
            args=[ast.Tuple(elts=values) | ast.List(elts=values), *_],
        ) if isinstance(loop, ast.For) and not _mentions(loop.iter, weights):
            return {len(values)}
        case ast.Call(func=ast.Name(id="range"), args=ends) if isinstance(loop, ast.For):
            found = [known.get(end.id) if isinstance(end, ast.Name) else getattr(end, "value", None) for end in ends]
            match found:
                case [int(count)]:
                    return {count}
                case [int(first), int(end)]:
                    return {end - first, end} if first == 1 else {end - first}
    return set()


def numbers_in(code: str) -> dict[str, int]:
    """The names that a piece of code sets to whole numbers, and to nothing else."""
    found, others = dict[str, int](), set[str]()
    for statement in statements_of(code):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int(number))) if name not in found:
                found[name] = number
            case _:
                others.update(assigned([statement]))
    return {name: number for name, number in found.items() if name not in others}


def rounds_of(task: Task, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """How often the loops of a task's reference run, also in helpers that only the reference calls.

    They may run up to these sizes, or to numbers that have names.
    """
    reference = [code for spec in task.outputs for code in spec.data_transform]
    numbers = numbers_in(task.global_ or "") | {f"{name}_value": size for name, size in sizes.items()}
    called, others = (_words(codes) for codes in (reference, (spec.apply for spec in task.fns)))
    helpers = (node for node in statements_of(task.global_ or "") if isinstance(node, ast.FunctionDef))
    reference += [ast.unparse(node) for node in helpers if node.name in called - others]
    weights = {spec.name for spec in task.parameters}
    return tuple(sorted({count for code in reference for count in loop_counts(code, weights, numbers)}))


def _words(codes: Iterable[str]) -> set[str]:
    return {word for code in codes for word in _WORD.findall(code)}


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
