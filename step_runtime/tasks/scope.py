"""The names that a program may use, and their values."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from step_runtime.base.functions import DeclaredFn, Fn
from step_runtime.base.shapes import Dim
from step_runtime.base.syntax import parse_python
from step_runtime.base.types import StreamType
from step_runtime.tasks.task import Task


@dataclass(frozen=True)
class Scope:
    """Names in a program's scope at one set of sizes.

    `dims` are the symbols by name, `sizes` their values (`M_value` is `sizes["M"]`), and `lists` the
    names that the task's `global` binds to lists of its functions.
    """

    inputs: Mapping[str, StreamType]
    outputs: tuple[StreamType, ...]
    fns: Mapping[str, Fn]
    dims: Mapping[str, Dim]
    sizes: Mapping[str, int]
    lists: Mapping[str, tuple[Fn, ...]] = field(default_factory=dict)

    @cached_property
    def names(self) -> tuple[list[str], dict[str, list[str]]]:
        """The dims, and the labels in each list: what `global` may bind otherwise at other sizes."""
        return list(self.dims), {name: [fn.label for fn in fns] for name, fns in self.lists.items()}

    def without_code(self) -> Scope:
        """The same with functions that are only declared: it can be pickled, and runs none of the task's code."""
        bare: dict[Fn, Fn] = {
            fn: DeclaredFn(name, fn.name, (fn.input, fn.output), stateful=fn.stateful) for name, fn in self.fns.items()
        }
        lists = {name: tuple(bare.get(fn, fn) for fn in fns) for name, fns in self.lists.items()}
        return replace(self, fns={name: bare[fn] for name, fn in self.fns.items()}, lists=lists)


def static_scope(task: Task, set_index: int = 0, *, sizes: Mapping[str, int] | None = None) -> Scope:
    """The scope as far as the task's text determines it, without running any of its code.

    `sizes` are others than those of one of the task's sets.

    Sizes and lists that `global` binds are read if they are literal (`E_value = 3`, `ctx[E] = E_value`,
    `fns = [fn_a, fn_b]`), and unknown otherwise.
    """
    fns = {spec.func_name: declared(task, index) for index, spec in enumerate(task.fns)}
    sizes = dict(task.size_sets()[set_index] if sizes is None else sizes)
    lists: dict[str, tuple[Fn, ...]] = {}
    for statement in parse_python(textwrap.dedent(task.global_ or "")).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int(size))) if name.endswith(
                "_value"
            ):
                sizes[name.removesuffix("_value")] = size
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id="ctx"), slice=ast.Name(id=name))], value=value):
                size_read = _literal_size(value, sizes)
                if size_read is not None:
                    sizes[name] = size_read
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.List(elts=parts) | ast.Tuple(elts=parts)):
                members = [fns.get(part.id) for part in parts if isinstance(part, ast.Name)]
                known = tuple(member for member in members if member is not None)
                if known and len(known) == len(parts):
                    lists[name] = known
    return make_scope(task, fns, sizes, lists)


def make_scope(
    task: Task, fns: Mapping[str, Fn], sizes: Mapping[str, int], lists: Mapping[str, tuple[Fn, ...]]
) -> Scope:
    """The scope of a task with these functions, sizes and lists.

    A symbol without a size is no dim in it, nor is one that nothing in the task uses.
    """
    used = task.used_symbols
    return Scope(
        inputs={spec.name: type_ for spec, type_ in zip(task.inputs, task.input_types, strict=True)},
        outputs=task.output_types,
        fns=fns,
        dims={name: symbol for name, symbol in task.symbols().items() if name in sizes and name in used},
        sizes=sizes,
        lists=lists,
    )


def declared(task: Task, index: int) -> DeclaredFn:
    """The task's function number `index`, by its declaration only."""
    spec = task.fns[index]
    return DeclaredFn(spec.func_name, spec.name, task.fn_types[index], stateful=spec.init is not None)


def _literal_size(value: ast.expr, sizes: Mapping[str, int]) -> int | None:
    match value:
        case ast.Constant(value=int(size)):
            return size
        case ast.Name(id=name):
            return sizes.get(name.removesuffix("_value"))
    return None
