"""The language NAME, of programs that run and fill tensors; docs/executed-languages.md says what each member is for."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pipeline.languages import Diagnostic
from pipeline.tensors import AllowList, Runner, TensorLanguage, refused

FUNCTIONS = ("exp", "load", "max", "maximum", "rows", "sqrt", "store", "sum")


def _structure(tree: ast.Module) -> Iterator[Diagnostic]:
    """What only this language knows of its programs: they are one function, without decorators."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    if len(functions) != 1 or functions[0].decorator_list:
        yield refused(functions[-1] if functions else tree, "function", "expected one function without decorators")


class NewLanguage(TensorLanguage):
    """A program has the task's inputs and then its outputs as arguments, and writes the outputs."""

    name = "NAME"
    suffix = ".py"
    folder = Path(__file__).parent
    preload: Sequence[str] = ("MODULE.running",)
    tolerances: Mapping[str, tuple[float, float]] = {"fp32": (1e-4, 1e-4)}
    allowed = AllowList(
        imports=frozenset({"tile"}),
        paths=frozenset(f"tile.{name}" for name in FUNCTIONS),
        methods=frozenset(),
        structure=_structure,
        decorators=frozenset(),
    )

    def runner(self) -> type[Runner]:
        """What runs a program, imported where programs are judged."""
        from MODULE.running import Program

        return Program


LANGUAGE = NewLanguage()
