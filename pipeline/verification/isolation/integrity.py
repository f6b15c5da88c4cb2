"""Whether a task's code has changed the verifier: Python's own names, torch's, and the language's.

Compared are names and what they are bound to, by identity: of Python's builtins, of our modules, of the classes, the
tables and the functions' code of those that judge, what these use of torch, and what writes answers, JSON. A name that
is new counts, as it could hide a builtin, except in a package, to which Python adds the modules that it imports late. A
function that follows each call (`sys.settrace`, `sys.setprofile`) counts, too, as it could change what they have.
The check looks nothing up where a task's code could have put something else.
"""

from __future__ import annotations

import builtins
import ctypes
import json
import json.encoder
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any

_JUDGES = ("step_runtime.verification", "step_runtime.execution", "pipeline.verification")
"""Packages of which classes, and the code of functions, are compared too."""
_OURS = ("step_runtime", "pipeline.verification")
_USED = ("torch", "torch.random")
"""Modules of which only the names that occur in the functions of those packages are compared."""


def unchanged() -> Callable[[], bool]:
    """Notes what there is now; the function returned says whether that still holds."""
    modules = {name: module for name, module in [*sys.modules.items()] if name.startswith(_OURS) or name in _USED}
    ours = {name: vars(module) for name, module in modules.items() if name.startswith(_OURS)}
    for space in ours.values():
        space.setdefault("__warningregistry__", {})  # Python adds it at the first warning from there
    judges = [*_classes(modules[name] for name in ours if name.startswith(_JUDGES))]
    judging = [*judges, *(ours[name] for name in ours if name.startswith(_JUDGES))]
    functions = [value for space in judging for value in space.values() if isinstance(value, FunctionType)]
    words = {name for function in functions for name in function.__code__.co_names}
    used: list[tuple[Mapping[str, Any], Iterable[str]]] = [
        (vars(module), words & vars(module).keys()) for name, module in modules.items() if name in _USED
    ]
    used += [(space, [*space]) for space in ours.values() if "__path__" in space]
    fixed = [
        vars(builtins),
        *map(vars, (json, json.encoder, json.JSONEncoder)),
        *judges,
        *(space for space in ours.values() if "__path__" not in space),
    ]
    fixed += _tables(space for name, space in ours.items() if name.startswith(_JUDGES))
    if "torch" in modules:
        fixed.append(vars(modules["torch"].Tensor))
    return _check(modules, fixed, used, functions)


def _check(
    modules: Mapping[str, ModuleType],
    spaces: Sequence[Mapping[str, Any]],
    used: Sequence[tuple[Mapping[str, Any], Iterable[str]]],
    functions: Sequence[FunctionType],
) -> Callable[[], bool]:
    """The check, all of whose names are its own."""
    pairs, size, joined, tuple_of, key, getter = map, len, chain.from_iterable, tuple, id, operator.attrgetter
    string_at, header, pointer = ctypes.string_at, tuple.__basicsize__, ctypes.sizeof(ctypes.c_void_p)
    loaded, code, defaults = sys.modules, getter("__code__"), getter("__defaults__")
    tracer, profiler = sys.gettrace, sys.getprofile  # of which each frame that comes could be another's
    followed = (tracer(), profiler())
    values = [space.values() for space in spaces]
    lookups = [(space.get, [*names]) for space, names in used]

    def bound() -> tuple[Any, ...]:
        """The objects to which all names are bound."""
        found = [pairs(get, names) for get, names in lookups]
        return tuple_of(
            joined((*values, *found, pairs(code, functions), pairs(defaults, functions), pairs(loaded.get, modules)))
        )

    def addresses(objects: tuple[Any, ...]) -> bytes:
        """Those of a tuple's items: to compare them in one piece is fast, and asks none of the items."""
        return string_at(key(objects) + header, pointer * size(objects))

    kept = bound()  # not to be freed, as others would have their addresses
    known = addresses(kept)

    def holds() -> bool:
        alone = tracer() is followed[0] and profiler() is followed[1]
        return size(kept) > 0 and alone and loaded is sys.modules and addresses(bound()) == known

    return holds


def _tables(spaces: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[Any, Any]]:
    """The dicts that modules define as constants, such as the tolerances."""
    for space in spaces:
        yield from (value for name, value in space.items() if name.isupper() and isinstance(value, dict))


def _classes(modules: Iterable[ModuleType]) -> Iterator[Mapping[str, Any]]:
    """The names of the classes that modules define."""
    for module in modules:
        for value in [*vars(module).values()]:
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield vars(value)
