"""Builders: functions of dims that return a module with its inputs. They are built and exported at each set of sizes.

    def block(B=(2, 4), N=(3, 5), H=(2, 3), K=(4, 6)):
        return Block(H, K), torch.randn(B, N, H * K)

A function may stand in the module's place, a last dict has keyword arguments, and a pair such as `("ids(V)", (B, N))`
is an input with the generator of its data.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import runpy
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from pipeline.base.errors import UsageError
from pipeline.modules.decompositions import TABLE
from step_runtime.base.syntax import parse_python
from step_runtime.tasks.generators import expression
from step_runtime.tasks.reader import line_of_snippet, task_text
from step_runtime.tasks.task import Task

Builder = Callable[..., Any]
_OURS = (str(Path(torch.__file__).parent), str(Path(__file__).parent), "<")
_EXAMPLE = "def block(B=(2, 4), N=(3, 5), D=(6, 10)): return Block(D), torch.randn(B, N, D)"


class _Function(nn.Module):
    def __init__(self, function: Builder) -> None:
        super().__init__()
        # A builtin has no signature.
        self.forward = function if inspect.isfunction(function) else lambda *inputs: function(*inputs)  # noqa: PLW0108


@dataclass(frozen=True)
class Built:
    """A module and its inputs at one set of sizes, which a tree nests; `generators` has those that inputs state."""

    module: nn.Module
    leaves: list[Any]
    tree: Any
    generators: Mapping[int, str]

    def exported(self, name: str) -> Any:
        """The module's graph, without operators that change a tensor in its place.

        Raises:
            UsageError: torch.export can't follow it; the message names the line.
        """
        args, kwargs = pytree.tree_unflatten(self.leaves, self.tree)
        shown = StringIO()  # torch.export prints the graph where it fails
        with torch.no_grad(), warnings.catch_warnings(), redirect_stdout(shown), redirect_stderr(shown):
            warnings.simplefilter("ignore")
            try:
                return torch.export.export(self.module, tuple(args), kwargs).run_decompositions(dict(TABLE))
            except Exception as error:
                reason = str(error).strip().partition("\n")[0]
                expected = "expected control flow that depends on no data, and operators of PyTorch alone"
                raise UsageError(f"{_line(error, name)}: torch.export can't follow it: {reason}; {expected}") from error

    def tensor(self, name: str) -> Tensor:
        """A weight or buffer of the module."""
        owner, _, own = name.rpartition(".")
        found: Tensor = getattr(self.module.get_submodule(owner), own)
        return found


def find_builder(target: str) -> Builder:
    """The builder that `FILE.py:NAME` names; the file is run.

    Raises:
        UsageError: The file can't be run, or has no such name.
    """
    path, _, name = target.rpartition(":")
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        found: Builder = runpy.run_path(path, run_name=Path(path).stem)[name]
    except KeyError:
        raise UsageError(f"{path}: no function {name!r} in it") from None
    except Exception as error:
        raise UsageError(f"{_line(error, path)}: {type(error).__name__}: {error}") from error
    return found


def reference_of(task: Task, path: Path, sizes: Mapping[str, int]) -> Builder:
    """A task's own reference as a function of its inputs, whose code has the lines of the task file."""
    body, names = list[ast.stmt](), list[str]()
    for place, output in enumerate(task.outputs):
        for part, code in enumerate(output.data_transform):
            tree = parse_python(textwrap.dedent(code))
            ast.increment_lineno(tree, line_of_snippet(task_text(path), f"outputs[{place}].data_transform[{part}]"))
            *before, last = tree.body
            assert isinstance(last, ast.Expr | ast.Assign) and last.value is not None
            names.append(f"result_{len(names)}")
            body += [*before, ast.copy_location(ast.Assign([ast.Name(names[-1], ast.Store())], last.value), last)]
    compiled = compile(ast.fix_missing_locations(ast.Module(body, [])), str(path), "exec")

    def reference(*tensors: Tensor) -> Any:
        scope = {"torch": torch, "math": math, **{f"{dim}_value": size for dim, size in sizes.items()}}
        scope["input_data"] = dict(zip((spec.name for spec in task.inputs), tensors, strict=True))
        exec(task.global_ or "", scope)
        exec(compiled, scope)
        return tuple(scope[name] for name in names)

    return reference


def sizes_of(build: Builder, name: str) -> list[dict[str, int]]:
    """The sets of sizes that a builder's defaults give.

    Raises:
        UsageError: It is no builder, or its dims have no sizes.
    """
    if inspect.isclass(build) or isinstance(build, nn.Module) or not callable(build):
        raise UsageError(f"{name}: expected a function of dims that returns the module and its inputs: `{_EXAMPLE}`")
    found = {each: given.default for each, given in inspect.signature(build).parameters.items()}
    counts = {len(sizes) if isinstance(sizes, tuple) else 0 for sizes in found.values()}
    if len(counts) != 1 or min(counts) < 2:
        raise UsageError(f"{name}: expected dims whose defaults are two sizes or more, as in `{_EXAMPLE}`")
    return [dict(zip(found, each, strict=True)) for each in zip(*found.values(), strict=True)]


def built(build: Builder, sizes: Mapping[str, int], name: str) -> Built:
    """What a builder returns at one set of sizes.

    Raises:
        UsageError: It fails, or returns something else than a module with its inputs.
    """
    torch.manual_seed(0)
    scope = {"torch": torch, **{f"{dim}_value": size for dim, size in sizes.items()}}
    generators = dict[int, str]()
    try:
        module, *args = build(**sizes)
        kwargs = args.pop() if isinstance(args[-1], dict) else {}
        leaves, tree = pytree.tree_flatten((args, kwargs), is_leaf=lambda each: each is None or _is_generated(each))
        for number, leaf in enumerate(leaves):
            if _is_generated(leaf):
                generators[number], shape = leaf
                leaves[number] = eval(expression(leaf[0], sizes), {**scope, "shape": shape})
    except Exception as error:
        what = f"{type(error).__name__} at {dict(sizes)}: {error}"
        raise UsageError(f"{_line(error, name)}: {what}; expected a builder such as `{_EXAMPLE}`") from error
    module = module if isinstance(module, nn.Module) else _Function(module)
    return Built(module.eval().requires_grad_(False), leaves, tree, generators)


def _is_generated(leaf: Any) -> bool:
    return isinstance(leaf, tuple) and len(leaf) == 2 and isinstance(leaf[0], str)


def check_same(graphs: Sequence[Sequence[Any]]) -> None:
    """Raises `UsageError` where graphs of different sizes have different operators, at the line that differs."""
    for nodes in zip(*graphs, strict=False):
        if len({(node.op, str(node.target)) for node in nodes}) > 1:
            names = " or ".join(dict.fromkeys(str(node.target) for node in nodes))
            node = next((each for each in nodes if each.op == "call_function"), nodes[0])
            raise UsageError(f"{line_of(node)}: {names}, by the sizes: expected control flow that depends on none")


def line_of(node: Any) -> str:
    """The file and line of the module's code that made a node, and the code."""
    lines = re.findall(r'File "(.*)", line (\d+), in .*\n\s*(.*)', node.meta.get("stack_trace") or "")
    own = [each for each in lines if not each[0].startswith(_OURS)] or lines
    return "{}:{}: `{}`".format(*own[-1]) if own else f"operator {node.name}"


def _line(error: BaseException, name: str) -> str:
    """The last line outside PyTorch and this project that an error came from."""
    own = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(_OURS)]
    return f"{own[-1].filename}:{own[-1].lineno}: `{own[-1].line}`" if own else name
