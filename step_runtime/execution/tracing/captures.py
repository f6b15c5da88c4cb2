"""The objects that an author's function can reach besides its arguments: globals, closures, attributes, weights.

A traced function is replayed without running its Python code, so everything that the code could read or change must
be known. `Captures` walks it once. Tensors found are the trace's further inputs, looked up again in the same
place at every replay, as a task's weights are sampled again for every seed. Other values must be the same
objects as when the trace was made. A value of a kind that may hide state makes the function `opaque`.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import sympy
import torch
from torch import Tensor

from step_runtime.base.functions import Fn
from step_runtime.base.types import Buffer, Multihot, Scalar, STuple

_PLAIN = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)
_CONSTANTS = (*_PLAIN, sympy.Basic, Scalar, Buffer, Multihot, STuple)
_LIBRARIES = ("torch", "math", "sympy", "builtins", "step_runtime")
_EFFECTS = {dis.opmap[name] for name in ("STORE_GLOBAL", "DELETE_GLOBAL")}
_IMPORT = dis.opmap["IMPORT_NAME"]


class Place(NamedTuple):
    """Where a value is found: `container[key]`."""

    container: Any
    key: Any

    def look(self) -> Any:
        """The current value; None if there is none."""
        try:
            return self.container[self.key]
        except (KeyError, IndexError, ValueError):
            return None


class _Cells:
    """A function's closure as a container."""

    def __init__(self, function: FunctionType) -> None:
        self._cells = function.__closure__ or ()

    def __len__(self) -> int:
        return len(self._cells)

    def __getitem__(self, index: int) -> Any:
        return self._cells[index].cell_contents


class Captures:
    """The objects that the functions run by `fn` can reach.

    Attributes:
        opaque: Whether something may hide state or change it (an iterator, the module `random`, an object of the
            author's own class, a `global` statement), so that only running the code is safe.
    """

    def __init__(self, fn: Fn) -> None:
        self.opaque = False
        self._fixed: list[tuple[Place, Any]] = []
        self._lengths: list[tuple[Any, int]] = []
        self._tensors: list[Place] = []
        self._seen: set[int] = set()
        for function in fn.sources():
            self._function(function)

    def unchanged(self) -> bool:
        """Whether everything but the tensors is unchanged."""
        for (container, key), value in self._fixed:
            try:
                if container[key] is not value:
                    return False
            except (KeyError, IndexError, ValueError):
                return False
        return all(len(container) == length for container, length in self._lengths)

    @property
    def constant(self) -> bool:
        """Whether no tensor, whose values may change, is captured."""
        return not self.opaque and not self._tensors

    def place(self, tensor: Tensor) -> Place | None:
        """Where `tensor` is found; None if it is in no place, or in several, which may differ later."""
        places = [place for place in self._tensors if place.look() is tensor]
        return places[0] if len(places) == 1 else None

    def state(self) -> list[Any]:
        """The state that a call without side effects leaves equal."""
        tensors = [place.look() for place in self._tensors]
        versions = [(id(tensor), tensor._version) for tensor in tensors if isinstance(tensor, Tensor)]
        return [self.unchanged(), versions, torch.get_rng_state().numpy().tobytes()]

    def _function(self, function: Callable[..., Any]) -> None:
        if isinstance(function, MethodType):
            self._items(vars(function.__self__))
            function = function.__func__
        if not isinstance(function, FunctionType):
            self.opaque = True
            return
        for code in _nested(function.__code__):
            self.opaque |= _changes_names(code)
            self._items(function.__globals__, (name for name in code.co_names if name in function.__globals__))
        cells = _Cells(function)
        self._items(cells, range(len(cells)))
        self._items(list(function.__defaults__ or ()))
        self._items(function.__kwdefaults__ or {})
        self._items(function.__dict__)

    def _items(self, container: Any, keys: Iterable[Any] | None = None) -> None:
        if keys is None:
            keys = list(container) if isinstance(container, dict) else range(len(container))
            self._lengths.append((container, len(container)))
        for key in keys:
            self._value(Place(container, key))

    def _value(self, place: Place) -> None:
        value = place.look()
        if isinstance(value, Tensor):
            if not any(other.container is place.container and other.key == place.key for other in self._tensors):
                self._tensors.append(place)
            return
        self._fixed.append((place, value))
        if id(value) not in self._seen and not _is_constant(value):
            self._seen.add(id(value))
            self._inside(value)

    def _inside(self, value: Any) -> None:
        match value:
            case dict() | list():
                self._items(value)
            case tuple():
                self._items(list(value))
            case FunctionType() | MethodType():
                self._function(value)
            case torch.nn.Module():
                attributes = vars(value)
                for part in ("_parameters", "_buffers", "_modules"):
                    self._items(attributes[part])
                self._items(attributes, [name for name in attributes if not name.startswith("_")])
                if not _is_library_class(type(value)):
                    self._function(type(value).forward)
            case _:
                self.opaque = True


def _is_constant(value: Any) -> bool:
    match value:
        case ModuleType():
            return _is_library(value.__name__)
        case BuiltinFunctionType():
            # A bound method such as `log.append` or `random.random` has an object's state behind it.
            return isinstance(value.__self__, ModuleType | type | None) and _is_library(value.__module__ or "torch")
        case FunctionType():
            return _is_library(value.__globals__.get("__name__", ""))
        case type():
            return _is_library_class(value)
    return isinstance(value, _CONSTANTS)


def _is_library(module: str) -> bool:
    return module.split(".")[0] in _LIBRARIES


def _is_library_class(kind: type) -> bool:
    # Looked up, as a definition in a namespace without a name claims to be in `builtins`.
    owner = sys.modules.get(kind.__module__)
    return _is_library(kind.__module__) and getattr(owner, kind.__name__, None) is kind


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _changes_names(code: CodeType) -> bool:
    """Whether code rebinds globals, or imports what may hold state."""
    operations = set(code.co_code[::2])
    if operations & _EFFECTS:
        return True
    if _IMPORT not in operations:
        return False
    imported = [step.argval for step in dis.get_instructions(code) if step.opcode == _IMPORT]
    return not all(_is_library(name) for name in imported)
