"""Expressions of references: names that others stand for, and calls of attention."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping


def attention_call(value: ast.expr) -> tuple[ast.expr, ast.expr, ast.expr, ast.expr | None] | None:
    """Queries, keys, values and the mask of a call of attention; None for another expression, or further arguments."""
    if not isinstance(value, ast.Call) or not is_module(value.func):
        return None
    if not ast.unparse(value.func).endswith(".scaled_dot_product_attention"):
        return None
    if len(value.args) != 3 or any(isinstance(part, ast.Starred) for part in value.args):
        return None
    options = {keyword.arg: keyword.value for keyword in value.keywords}
    if options.keys() - {"attn_mask", "is_causal"} or len(options) > 1:
        return None
    q, k, v = value.args
    mask = options.get("attn_mask")
    if "is_causal" in options:
        if ast.unparse(options["is_causal"]) != "True":
            return None
        mask = template("torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()", q=q, k=k)
    return q, k, v, mask


def template(text: str, **parts: ast.expr) -> ast.expr:
    """An expression with others in the places of names."""
    tree = ast.parse(text, mode="eval").body
    found: ast.expr = Substitution(parts).visit(tree)
    return found


class Substitution(ast.NodeTransformer):
    """Puts expressions in the place of names that are read."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """The expression for a name."""
        known = self._values.get(node.id) if is_load(node) else None
        return node if known is None else copy.deepcopy(known)


def is_module(node: ast.expr) -> bool:
    """Whether an expression names a module of PyTorch's or Python's, or a part of one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in ("torch", "F", "nn", "math")


def is_load(node: ast.Name) -> bool:
    """Whether a name is read."""
    return isinstance(node.ctx, ast.Load)
