"""Functions that programs pass to primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from step_runtime.base.types import DType


class Fn:
    """A function on one stream element; subclasses give `apply`, and `getInit` if they carry state.

    Without state: `apply(self, input)`; with state: `apply(self, state, input)`, and the state has the type
    `output`. `input`, `state` and what `apply` returns are lists with one tensor per tuple component, each
    of the component's layout.
    """

    def __init__(self, name: str, input_dtype: DType, output_dtype: DType) -> None:
        self.name = name
        self.input = input_dtype
        self.output = output_dtype

    @property
    def label(self) -> str:
        """The name that programs use; by default the function's own name."""
        return self.name

    @property
    def stateful(self) -> bool:
        """Whether it has an initial state, and so can fold."""
        return type(self).getInit is not Fn.getInit

    def apply(self, *args: Sequence[Tensor]) -> Sequence[Tensor]:
        """The function's value on one element.

        Raises:
            TypeError: The function is only declared, without code.
        """
        raise TypeError(f"function {self.label} has no code to run")

    def getInit(self) -> Sequence[Tensor]:
        """The initial state, one tensor per component of `output`.

        Raises:
            TypeError: The function has no state.
        """
        raise TypeError(f"function {self.label} carries no state")

    def sources(self) -> tuple[Callable[..., Any], ...]:
        """The Python functions that run when it runs; what they can reach decides whether it can be traced."""
        return (self.apply, self.getInit) if self.stateful else (self.apply,)

    def __repr__(self) -> str:
        return f"{self.label}: {self.input} -> {self.output}"


class DeclaredFn(Fn):
    """A function known only by its declaration, which suffices to check a program."""

    def __init__(self, func_name: str, name: str, dtypes: tuple[DType, DType], *, stateful: bool) -> None:
        super().__init__(name, *dtypes)
        self.func_name = func_name
        self._stateful = stateful

    @property
    def label(self) -> str:
        """The name that programs use."""
        return self.func_name

    @property
    def stateful(self) -> bool:
        """Whether the declaration has an `init`."""
        return self._stateful
