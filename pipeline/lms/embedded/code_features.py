"""What pieces of code mention: the numbers by which they select, the order of elements, and sizes."""

from __future__ import annotations

import ast
from functools import lru_cache

from pipeline.lms.embedded.dependence.recurrences import statements_of


@lru_cache(maxsize=1024)
def constant_indices(code: str) -> frozenset[int]:
    """The numbers by which a piece of code selects elements, other than a function's own arguments and state."""
    nodes = (node for statement in statements_of(code) for node in ast.walk(statement))
    return frozenset(
        node.slice.value
        for node in nodes
        if isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, int)
        and not (isinstance(node.value, ast.Name) and node.value.id in ("input", "state"))
    )


_IN_ORDER = frozenset(("sort", "argsort", "cdist", "searchsorted", "pdist", "cov", "corrcoef", "rank", "bucketize"))


@lru_cache(maxsize=1024)
def crosses(code: str) -> bool:
    """Whether a piece of code sorts, or pairs elements of a value with others of the same value along two new dims."""
    nodes = [node for statement in statements_of(code) for node in ast.walk(statement)]
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) if name in _IN_ORDER:
                return True
            case (
                ast.BinOp(left=one, right=other)
                | ast.Compare(left=one, comparators=[other])
                | ast.Call(args=[one, other])
            ):
                mine, theirs = _spread(one), _spread(other)
                if mine is not None and mine == theirs and ast.unparse(one) != ast.unparse(other):
                    return True
    return False


def _spread(node: ast.expr) -> str | None:
    """What is seen along another dim: by `unsqueeze`, `[:, None]` or a transposition; None for nothing of the kind."""
    match node:
        case ast.Call(func=ast.Attribute(value=base, attr="unsqueeze" | "transpose" | "t" | "permute" | "view")):
            return ast.unparse(base)
        case ast.Attribute(value=base, attr="T" | "mT"):
            return ast.unparse(base)
        case ast.Subscript(value=base, slice=index) if any(
            isinstance(part, ast.Constant) and part.value is None for part in ast.walk(index)
        ):
            return ast.unparse(base)
    return ast.unparse(node) if isinstance(node, ast.Name) else None


_ORDERED = frozenset(
    """
    arange conv1d conv2d conv3d cummax cummin cumprod cumsum cumulative_trapezoid diff enumerate flip linspace
    logcumsumexp pad roll shift tril tril_indices triu triu_indices unfold accumulate reversed ctc_loss
    """.split()  # noqa: SIM905 (a list of so many strings would be harder to read)
)


@lru_cache(maxsize=1024)
def in_order(code: str) -> bool:
    """Whether a piece of code treats elements by their order: by name of a call, or by the variable of a loop."""
    nodes = [node for statement in statements_of(code) for node in ast.walk(statement)]
    loops = [node.target for node in nodes if isinstance(node, ast.For | ast.comprehension)]
    counters = {node.id for target in loops for node in ast.walk(target) if isinstance(node, ast.Name)}
    for node in nodes:
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.keyword(arg=str(name)) if (
                name in _ORDERED or "causal" in name or name == "stable"
            ):
                return True
            case ast.Subscript(slice=index) if any(
                isinstance(part, ast.Name) and part.id in counters for part in ast.walk(index)
            ):
                return True
    return False


_SIZE = "_value"


@lru_cache(maxsize=1024)
def sizes_in(code: str) -> frozenset[str]:
    """The dims whose sizes a piece of code mentions."""
    nodes = (node for statement in statements_of(code) for node in ast.walk(statement))
    names = (node.id for node in nodes if isinstance(node, ast.Name) and node.id.endswith(_SIZE))
    return frozenset(name.removesuffix(_SIZE) for name in names)


@lru_cache(maxsize=1024)
def loop_sizes(code: str) -> frozenset[str]:
    """The dims whose sizes say how often a loop of a piece of code runs."""
    nodes = (node for statement in statements_of(code) for node in ast.walk(statement))
    loops = (node.iter for node in nodes if isinstance(node, ast.For | ast.comprehension))
    return frozenset(
        name
        for loop in loops
        if isinstance(loop, ast.Call) and isinstance(loop.func, ast.Name) and loop.func.id == "range"
        for name in sizes_in(ast.unparse(loop))
    )
