"""A task's functions with their author's code, and what this code sees of the package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from step_runtime.base.functions import DeclaredFn, Fn
from step_runtime.base.stream import Stream
from step_runtime.base.types import Buffer, DType, Multihot, Scalar, STuple, components_of
from step_runtime.execution.invocation import element_layout
from step_runtime.execution.number_formats import element_type
from step_runtime.primitives.registry import PRIMITIVES
from step_runtime.tasks import snippets
from step_runtime.tasks.task import FnSpec

_TYPES = (Buffer, Fn, Multihot, Scalar, Stream, STuple)
STEP = SimpleNamespace(**PRIMITIVES, **{cls.__name__: cls for cls in _TYPES})
"""What snippets see as `step`: the part of the package that programs in Python use."""


class TaskFn(DeclaredFn):
    """A task's function with its author's code."""

    def __init__(
        self, spec: FnSpec, dtypes: tuple[DType, DType], namespace: snippets.Namespace, *, widen: snippets.Widening
    ) -> None:
        super().__init__(spec.func_name, spec.name, dtypes, stateful=spec.init is not None)
        self._init = spec.init or []
        self._namespace = namespace
        parameters = ("state", "input") if self.stateful else ("input",)
        code = snippets.compile_function(spec.apply, parameters, spec.func_name, widen=widen)
        self._code: Callable[..., Sequence[Tensor]] = snippets.bind_function(code, spec.func_name, namespace)

    def apply(self, *args: Sequence[Tensor]) -> Sequence[Tensor]:
        """The author's code on one element."""
        return self._code(*args)

    def sources(self) -> tuple[Callable[..., Any], ...]:
        """The author's code; the initial state is declared."""
        return (self._code,)

    def getInit(self) -> Sequence[Tensor]:
        """Each component filled with its declared initial value."""
        sizes = {symbol.name: size for symbol, size in self._namespace["ctx"].items()}
        parts = zip(components_of(self.output), self._init, strict=True)
        return [
            torch.full(element_layout(element, sizes), value, dtype=element_type(element, torch.get_default_dtype()))
            for element, value in parts
        ]
