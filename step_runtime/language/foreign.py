"""Tasks of strangers in the project's words: what an LM is shown of one, and what is kept of it.

Types, dims and programs are printed from what was read. Code is printed from its tree: attributes, keywords and option
strings are PyTorch's and Python's own, einsum's letters are a, b, c, …, and any other name is one of the project's.
Comments, docstrings, annotations and other strings are left out. The task is to be verified as it is then.
"""

from __future__ import annotations

import ast
import builtins
import math
import re
import string
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain, count, product
from typing import Any

import sympy
import torch

from step_runtime.base.shapes import SYMBOLS, format_dim
from step_runtime.base.syntax import parse_python
from step_runtime.base.types import components_of, parse_dim, parse_dtype
from step_runtime.language.canonical import canonical_text
from step_runtime.tasks.task import OutputSpec, Task, TensorSpec, parse_limit

_OPTIONS = (
    "-inf", "inf", "nan", "ij", "xy", "left", "right", "none", "reflect", "replicate", "constant", "same", "valid",
)  # fmt: skip
_SNIPPETS = (
    "Symbol", "ctx", "input", "input_data", "math", "shape", "state", "torch",
    "binary", "ids", "integers", "lengths", "normal", "one_hot", "uniform",
)  # fmt: skip
_STEM = re.compile(r"\D+")
"""Of a name such as W0, W1, …, which code may compute, what stands beside the numbers."""


@cache
def _vocabulary() -> frozenset[str]:
    """The words of PyTorch, Python's builtins and task files."""
    places = (
        builtins, math, dict, list, range, set, str, tuple,
        torch, torch.Tensor, torch.fft, torch.linalg, torch.nn, torch.nn.functional, torch.special,
    )  # fmt: skip
    arguments = {argument.name for schema in torch._C._jit_get_all_schemas() for argument in schema.arguments}
    return frozenset(chain(arguments, _OPTIONS, _SNIPPETS, *map(dir, places)))


def in_own_words(task: Task, program: str) -> tuple[Task, str]:
    """The task, without `impl`, and a program for it, without a word of their author's.

    No program, which is refused, stands for one that can't be written, as it is none or as the task's code is too deep.
    """
    try:
        return _written(task, program)
    except (ValueError, RecursionError):
        return task, ""


def _written(task: Task, program: str) -> tuple[Task, str]:
    own = [name for name in task.symbols() if name not in SYMBOLS]
    symbols = {name: name for name in SYMBOLS} | {name: f"D{number}" for number, name in enumerate(own, 1)}
    given = [spec.name for spec in (*task.inputs, *task.parameters)]
    found = dict.fromkeys(part for name in given for part in _STEM.findall(name))
    stems = {stem: "E" if stem == "E" else f"x{letter}" for stem, letter in zip(found, _letters(), strict=False)}
    tensors = {name: _STEM.sub(lambda stem: stems[stem[0]], name) for name in given}
    functions = {spec.func_name: f"fn_{number}" for number, spec in enumerate(task.fns, 1)}
    values = {f"{name}_value": f"{new}_value" for name, new in symbols.items()}
    code = _Code({**symbols, **values, **functions}, tensors, stems)
    dims = {name: sympy.Symbol(new) for name, new in symbols.items()}

    def typed(text: Any) -> str | list[str]:
        parts = [str(part) for part in components_of(parse_dtype(text, dims))]
        return parts if len(parts) > 1 else parts[0]

    def shaped(spec: TensorSpec | OutputSpec) -> dict[str, Any]:
        return {"dtype": typed(spec.dtype), "dims": [format_dim(parse_dim(dim, dims)) for dim in spec.dims]}

    def sampled(spec: TensorSpec) -> dict[str, Any]:
        kept = spec.model_dump(include={"min", "max", "assumes"})
        return {**shaped(spec), "name": tensors[spec.name], "data_gen": code.text(spec.data_gen), **kept}

    content = {
        "global": code.text(task.global_),
        "sizes": {symbols[name]: value for name, value in task.sizes.items()},
        "inputs": [sampled(spec) for spec in task.inputs],
        "parameters": [sampled(spec) for spec in task.parameters],
        "fns": [
            {
                "name": f"F{number}",
                "apply": code.text(spec.apply),
                "init": spec.init,
                "input_dtype": typed(spec.input_dtype),
                "output_dtype": typed(spec.output_dtype),
                "func_name": functions[spec.func_name],
            }
            for number, spec in enumerate(task.fns, 1)
        ],
        "outputs": [
            {**shaped(spec), "name": f"S{number}", "data_transform": [code.text(text) for text in spec.data_transform]}
            for number, spec in enumerate(task.outputs)
        ],
        "stress": task.stress,
        "limits": {figure: format_dim(parse_limit(limit, dims)) for figure, limit in task.limits.items()},
    }
    return Task.model_validate(content).named(task.name), canonical_text(program, code.names | tensors)


def _letters() -> Iterator[str]:
    """The words a, b, …, z, aa, ab, …."""
    for length in count(1):
        yield from map("".join, product(string.ascii_lowercase, repeat=length))


class _Code(ast.NodeTransformer):
    """Writes the code of one task in the project's words.

    Attributes:
        names: The project's names by the author's; it grows with the code that is written.
    """

    def __init__(self, names: Mapping[str, str], strings: Mapping[str, str], stems: Mapping[str, str]) -> None:
        self.names = dict(names)
        self._stems = stems
        self._fresh = (f"v{number}" for number in count(1))
        self._strings = dict(strings)

    def text(self, source: str | None) -> str | None:
        """A snippet, if there is one."""
        if source is None:
            return None
        return ast.unparse(ast.fix_missing_locations(self.visit(parse_python(textwrap.dedent(source).strip()))))

    def _name(self, name: str) -> str:
        if name not in self.names:
            self.names[name] = name if name in _vocabulary() else next(self._fresh)
        return self.names[name]

    def _word(self, name: str) -> str:
        return name if name in _vocabulary() else self._name(name)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Writes every text of a node, but for annotations, which are left out."""
        written = (
            self._word if isinstance(node, ast.Attribute | ast.keyword | ast.alias | ast.ImportFrom) else self._name
        )
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "type_comment"):
                setattr(node, field, None)
            elif isinstance(value, str):
                setattr(node, field, ".".join(map(written, value.split("."))))
            elif isinstance(value, list) and all(isinstance(item, str) for item in value):
                setattr(node, field, [*map(written, value)])
        return super().generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return ast.Pass() if is_text else self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        return ast.Pass() if node.value is None else self.visit(ast.Assign([node.target], node.value))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(func=ast.Attribute(attr="einsum"), args=[ast.Constant(value=str(equation)), *operands]):
                letters = dict.fromkeys(re.findall("[a-zA-Z]", equation))
                own = str.maketrans(dict(zip(letters, string.ascii_letters, strict=False)))
                node.args = operands
                self.generic_visit(node)
                node.args.insert(0, ast.Constant("".join(re.findall("[a-zA-Z,.>-]", equation)).translate(own)))
                return node
        return self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        for part in node.values:
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                part.value = _STEM.sub(lambda stem: self._stems.get(stem[0]) or self._string(stem[0]), part.value)
            else:
                self.visit(part)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, bytes):
            return ast.Constant(b"")
        return ast.Constant(self._string(node.value)) if isinstance(node.value, str) else node

    def _string(self, text: str) -> str:
        known = text not in self._strings and text in _vocabulary()
        return text if known else self._strings.setdefault(text, f"s{len(self._strings)}")
