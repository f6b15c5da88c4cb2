"""TT-Lang behind the seam of `pipeline.languages`, as a language of tensors: what its programs may be."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.base.errors import UsageError
from pipeline.languages import Diagnostic
from pipeline.tensors.allowed import AllowList, refused
from pipeline.tensors.language import TensorLanguage

if TYPE_CHECKING:
    from pipeline.tensors.judging import Runner

REVISION = "2"
"""Of this adapter; a new one voids verdicts that are kept."""
_BLOCK = ("broadcast", "fill", "mask", "mask_posinf", "squeeze", "transpose", "unsqueeze", "where")
_MATH = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "celu", "clamp", "cos", "elu", "eq", "exp",
    "exp2", "expm1", "floor", "frac", "gelu", "gt", "hardsigmoid", "hardtanh", "leaky_relu", "log", "logp1", "lt",
    "max", "min", "ne", "neg", "prelu", "recip", "reduce_max", "reduce_sum", "relu", "relu_max", "relu_min", "round",
    "rsqrt", "rsub", "selu", "sigmoid", "sign", "signbit", "silu", "sin", "softplus", "softsign", "sqrt", "square",
    "tan", "tanh", "threshold", "trunc",
)  # fmt: skip
_OPERATION, _KERNELS = "ttl.operation", ("ttl.compute", "ttl.datamovement")


def _structure(tree: ast.Module) -> Iterator[Diagnostic]:
    """One operation, with one compute and two datamovement kernels, which use its arguments."""
    operations = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if len(operations) != 1:
        message = f"expected one function decorated with `@ttl.operation(grid=...)`, found {len(operations)}"
        yield refused(tree if not operations else operations[1], "operation", message)
    for node in operations:
        if _decorators(node) != [_OPERATION]:
            yield refused(node, "operation", "expected the decorator `@ttl.operation(grid=(1, 1))` and no other")
        kernels = [each for each in ast.walk(node) if isinstance(each, ast.FunctionDef) and each is not node]
        for kernel in kernels:
            if len(kernel.decorator_list) != 1 or _decorators(kernel)[0] not in _KERNELS:
                yield refused(kernel, "kernel", "expected the decorator `@ttl.compute()` or `@ttl.datamovement()`")
            if kernel.args.args:
                yield refused(kernel, "arguments", "a kernel has no arguments: it uses the operation's")
        kinds = [each or "" for kernel in kernels for each in _decorators(kernel)]
        if sorted(filter(None, kinds)) != ["ttl.compute", "ttl.datamovement", "ttl.datamovement"]:
            message = f"expected one compute and two datamovement kernels, found {len(kernels)} functions"
            yield refused(node, "kernels", message)


def _decorators(node: ast.FunctionDef) -> list[str | None]:
    """The dotted names of decorators that are called."""
    return [ALLOWED.decorator(each) if isinstance(each, ast.Call) else None for each in node.decorator_list]


ALLOWED = AllowList(
    imports=frozenset({"ttl", "ttnn", "torch"}),
    paths=frozenset({
        "ttl.copy", "ttl.grid_size", "ttl.make_dataflow_buffer_like", "ttl.node", "ttl.GroupTransfer",
        *(f"ttl.block.{name}" for name in _BLOCK), *(f"ttl.math.{name}" for name in _MATH),
    }),
    methods=frozenset({"add", "pop", "push", "reserve", "shape", "store", "wait", "wait_all"}),
    structure=_structure,
    decorators=frozenset({_OPERATION, *_KERNELS}),
    texts=frozenset({"full", "auto"}),
    given=frozenset({"grid"}),
)  # fmt: skip


class TTLang(TensorLanguage):
    """Programs are run as Python by the functional simulator, in confined cells only."""

    name = "ttlang"
    folder = Path(__file__).parent
    preload: Sequence[str] = ("ttlang.simulation",)
    allowed = ALLOWED
    multiple, rank = 32, 2
    tolerances: Mapping[str, tuple[float, float]] = {"fp32": (1e-4, 1e-4)}

    @cached_property
    def version(self) -> str:
        """Of the adapter, the simulator and Python, on which the simulator's implicit waits depend."""
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        return f"{REVISION}, tt-lang-sim {version('tt-lang-sim')}, python {python}"

    def runner(self) -> type[Runner]:
        """The simulator."""
        from ttlang.simulation import Simulation

        return Simulation


if find_spec("ttl") is None:
    raise UsageError("--language ttlang: tt-lang-sim is not installed; pip install 'adaptive-step[ttlang]'")
TTLANG = TTLang()
