"""The generators of inputs: `data_gen` in a task file, as a Python expression of `shape` on torch.

torch.rand, torch.randn, torch.ones      as PyTorch has them
binary                                   0 or 1 with equal probability
uniform(LOW, HIGH), normal(MEAN, STD)    a distribution and its scale
integers(LOW, HIGH)                      whole numbers, both ends included
ids(N), lengths(N)                       0 to N - 1; 1 to N
sorted(GENERATOR)                        ascending along the innermost dim
one_hot                                  a single 1 along the innermost dim
anything else                            a Python expression with `shape`, `torch` and the sizes (`N_value`)
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from typing import Literal

from step_runtime.base.syntax import parse_expression

PLAIN = ("torch.rand", "torch.randn", "torch.ones", "binary")
"""The generators that every task format knows."""

TRUTH = ("binary", "torch.ones", "one_hot")
"""The generators of truth values."""
WHOLE = ("integers", "ids", "lengths", *TRUTH)
"""The generators of whole numbers."""

Assumption = Literal["positive", "nonnegative", "sums_to_1"]
"""What a reference may assume of an input beyond its generator; stress inputs keep it."""

EXPECTED = (
    "torch.rand, torch.randn, torch.ones, binary, uniform(LOW, HIGH), normal(MEAN, STD), integers(LOW, HIGH), ids(N),"
    " lengths(N), sorted(GENERATOR), one_hot or a Python expression with `shape`"
)

_FORMS = {
    "uniform": "{0} + ({1} - {0}) * torch.rand(shape)",
    "normal": "{0} + {1} * torch.randn(shape)",
    "integers": "torch.randint({0}, {1} + 1, shape)",
    "ids": "torch.randint(0, {0}, shape)",
    "lengths": "torch.randint(1, {0} + 1, shape)",
}
_NAMES = {
    "torch.rand": "torch.rand(shape)",
    "torch.randn": "torch.randn(shape)",
    "torch.ones": "torch.ones(shape)",
    "binary": "(torch.rand(shape) < 0.5)",
    "one_hot": "torch.nn.functional.one_hot(torch.randint(0, shape[-1], shape[:-1]), shape[-1])",
}


def family(text: str) -> str:
    """The generator's name without its arguments, `sorted` aside; `expression` for a Python expression."""
    tree = _parsed(text)
    if isinstance(tree, ast.Call) and ast.unparse(tree.func) == "sorted" and len(tree.args) == 1:
        return family(ast.unparse(tree.args[0]))
    name = ast.unparse(tree.func) if isinstance(tree, ast.Call) else ast.unparse(tree)
    return name if name in (_FORMS if isinstance(tree, ast.Call) else _NAMES) else "expression"


def whole_range(text: str, sizes: Mapping[str, int]) -> range | None:
    """The whole numbers that a generator draws; None of others, and where its ends are neither numbers nor dims."""
    tree = _parsed(text)
    if text.strip() == "binary" or not isinstance(tree, ast.Call):
        return range(2) if text.strip() == "binary" else None
    try:
        ends = [sizes[one.id] if isinstance(one, ast.Name) else ast.literal_eval(one) for one in tree.args]
    except (KeyError, ValueError):
        return None
    match ast.unparse(tree.func), ends:
        case "integers", [int(low), int(high)]:
            return range(low, high + 1)
        case "ids", [int(count)]:
            return range(count)
        case "lengths", [int(count)]:
            return range(1, count + 1)
    return None


Reach = Literal["free", "bounded", "unknown"]
"""Whether the numbers of an expression may be of any magnitude, lie in a range, or cannot be told from its text."""

_UNBOUNDED = frozenset({"randn", "randn_like", "normal", "normal_", "exponential_", "cauchy_", "log_normal_"})
_UNIFORM = frozenset({"rand", "rand_like", "uniform_", "random_"})
_LINEAR = frozenset(
    {"abs", "add", "cat", "contiguous", "cumsum", "diff", "div", "double", "empty", "exp", "expand", "flip", "float",
     "flatten", "full", "mul", "neg", "ones", "permute", "reshape", "roll", "sort", "square", "squeeze", "stack", "sub",
     "sum", "t", "tensor", "transpose", "tril", "triu", "unsqueeze", "values", "view", "zeros"}
)  # fmt: skip
"""Functions whose results grow with what they take, and makers of constants."""


def reach(text: str) -> Reach:
    """The magnitude of an expression's numbers, as far as its text tells.

    Sums, products and functions that keep order or place are as free as the random numbers they are made of. Multiples
    of `torch.rand(shape)` are free as that is; other uses of it give a range.
    """
    tree = _parsed(text)
    called = {_called(node) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    random = called & (_UNBOUNDED | _UNIFORM)
    if not random or called - random - _LINEAR or not all(isinstance(node, _ARITHMETIC) for node in ast.walk(tree)):
        return "unknown"
    return "free" if random & _UNBOUNDED or _is_multiple(tree) else "bounded"


_ARITHMETIC = (
    ast.Call, ast.Attribute, ast.Name, ast.Constant, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.Starred,
    ast.keyword, ast.UnaryOp, ast.USub, ast.UAdd, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.Load,
)  # fmt: skip


def _called(call: ast.Call) -> str:
    """The last name of what is called: `randn` of `torch.randn(shape)`."""
    return ast.unparse(call.func).rpartition(".")[2]


def _is_multiple(tree: ast.expr) -> bool:
    """Whether an expression is uniform numbers from 0 times constants."""
    match tree:
        case ast.BinOp(op=ast.Mult() | ast.Div(), left=left, right=right):
            parts = [part for part in (left, right) if any(isinstance(node, ast.Call) for node in ast.walk(part))]
            return all(map(_is_multiple, parts))
        case ast.UnaryOp(operand=operand):
            return _is_multiple(operand)
        case ast.Call():
            return _called(tree) in ("rand", "rand_like")
    return False


def is_sorted(text: str) -> bool:
    """Whether the data ascends along the innermost dim."""
    return text.strip().startswith("sorted(")


def expression(text: str, symbols: Collection[str]) -> str:
    """A generator as a Python expression of `shape`, in which the sizes of dims are `N_value` and the like.

    Raises:
        ValueError: It is no Python expression, or has a wrong number of arguments.
    """
    return _written(_parsed(text), symbols)


def _parsed(text: str) -> ast.expr:
    try:
        return parse_expression(text.strip())
    except SyntaxError:
        raise ValueError(f"expected {EXPECTED}, found {text!r}") from None


def _written(tree: ast.expr, symbols: Collection[str]) -> str:
    text = ast.unparse(tree)
    if text in _NAMES:
        return _NAMES[text]
    if not isinstance(tree, ast.Call):
        if "shape" not in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}:
            raise ValueError(f"expected {EXPECTED}, found {text!r}")
        return text
    name = ast.unparse(tree.func)
    if name == "sorted" and len(tree.args) == 1:
        return f"torch.sort({_written(tree.args[0], symbols)}, -1).values"
    if name not in _FORMS:
        return text
    arguments = [f"({ast.unparse(_Sizes(symbols).visit(argument))})" for argument in tree.args]
    wanted = 2 if "{1}" in _FORMS[name] and name in ("uniform", "normal", "integers") else 1
    if len(arguments) != wanted or tree.keywords:
        raise ValueError(f"{name} takes {wanted} argument{'s' if wanted > 1 else ''}, found {text!r}")
    return _FORMS[name].format(*arguments)


class _Sizes(ast.NodeTransformer):
    """The names of dims as those of their sizes."""

    def __init__(self, symbols: Collection[str]) -> None:
        self._symbols = symbols

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """`N` as `N_value`."""
        return ast.Name(f"{node.id}_value", node.ctx) if node.id in self._symbols else node
