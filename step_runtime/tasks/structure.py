"""The structure of a task's content: its keys and the kinds of their values, before anything reads their texts.

What is wrong is said in the words of the task format, and a stand-in takes the place of each wrong value, so that
what else is wrong can be found in the same round.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, TypeAlias, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from step_runtime.base.errors import describe_value
from step_runtime.base.units import FIGURES
from step_runtime.tasks.generators import EXPECTED, Assumption
from step_runtime.tasks.includes import KEY
from step_runtime.tasks.task import FnSpec, OutputSpec, Task, TensorSpec
from step_runtime.tasks.yaml_format import Location

Problem: TypeAlias = tuple[Location, str]
"""A place in a task's content, and what is wrong there."""

_MODELS: dict[str, type[BaseModel]] = {
    "inputs": TensorSpec,
    "parameters": TensorSpec,
    "fns": FnSpec,
    "outputs": OutputSpec,
}


class _Key(NamedTuple):
    """What a key holds, in words, what each element of its list is, and a value that stands in for a wrong one."""

    value: str
    element: str = ""
    stand_in: Any = None


_TYPE = _Key("a type such as fp32 or Buffer(fp32, [N]), or a list of these", "a type such as fp32", "fp32")
_COUNT = _Key("a whole number")
_NAME = _Key("a name", stand_in="stand_in")
_TEXT = "Python code as text"
_CODE = _Key(_TEXT, stand_in="return input")
_ASSUMED = ", ".join(get_args(Assumption))
_KEYS: Mapping[str, _Key] = {
    "name": _NAME,
    "func_name": _NAME,
    "dtype": _TYPE,
    "input_dtype": _TYPE,
    "output_dtype": _TYPE,
    "dims": _Key("a list of dims, innermost first", "a dim: a number, a symbol or a product of these", [1]),
    "data_gen": _Key(EXPECTED, stand_in="torch.rand"),
    "min": _COUNT,
    "max": _COUNT,
    "assumes": _Key(f"a list of {_ASSUMED}", f"one of {_ASSUMED}", []),
    "apply": _CODE,
    "init": _Key("a list of numbers, -inf or inf, one per component of output_dtype"),
    "data_transform": _Key(f"{_TEXT}, or a list with a text per component", _TEXT, ["0"]),
    "inputs": _Key("a list of inputs, one or more"),
    "parameters": _Key("a list of parameters", stand_in=[]),
    "fns": _Key("a list of functions", stand_in=[]),
    "outputs": _Key("a list of outputs, one or more"),
    "sizes": _Key("a mapping of symbols to sizes", "a size or a list of sizes, whole numbers", {}),
    "limits": _Key("a mapping of figures to limits", "a number or a polynomial in dims", {}),
    "stress": _Key("true or false", stand_in=False),
    "global": _CODE._replace(stand_in=None),
    "impl": _Key("a program as text"),
    "test_name": _NAME._replace(stand_in=None),
}


def read_structure(content: Mapping[Any, Any]) -> tuple[Task | None, list[Problem], frozenset[Location]]:
    """The task that a mapping holds, with stand-ins for what is wrong, the problems, and the places of the stand-ins.

    The task is None where no stand-in makes it one.
    """
    try:
        return Task.model_validate(dict(content)), [], frozenset()
    except ValidationError as error:
        found = _innermost(error.errors())
    mended: dict[Any, Any] = copy.deepcopy(dict(content))
    places = [place for place, _ in found]
    for place, item in found:
        _mend(mended, place, item)
    try:
        task = Task.model_validate(mended)
    except ValidationError:
        task = None
    return task, [(place, _message(place, item)) for place, item in found], frozenset(places)


def is_independent(place: Location, replaced: frozenset[Location]) -> bool:
    """Whether a problem at a place does not follow from the stand-ins at others."""
    for other in replaced:
        if place[: len(other)] == other:
            return False
        if other in (("global",), ("sizes",)) or (other[0] == "sizes" and place == ("sizes",)):
            return False
        typed = place[2:3] in _READ_BY_TYPE or place[2:] == ("data_transform",)
        if other[2:3] in _TYPES and place[:2] == other[:2] and typed:
            return False
    return True


_TYPES = {("dtype",), ("output_dtype",)}
_READ_BY_TYPE = {("init",), ("data_gen",), ("min",), ("max",), ()}
"""Parts of an item that are read by its type, beside the number of its references."""


def _innermost(errors: Sequence[ErrorDetails]) -> list[tuple[Location, ErrorDetails]]:
    """The errors by their visible place, one for each; without those of a value that has one further in."""
    by_place: dict[Location, ErrorDetails] = {}
    for item in errors:
        by_place.setdefault(_visible(item["loc"]), item)
    outer = {place[:length] for place in by_place for length in range(len(place))}
    return [(place, item) for place, item in by_place.items() if place not in outer]


def _visible(loc: Location) -> Location:
    """A Pydantic location without the names of union members, which a task file does not have."""
    return tuple(part for part in loc if isinstance(part, int) or not (set("[(") & set(part) or part in _MEMBERS))


_MEMBERS = ("str", "int", "float")


def _mend(content: dict[Any, Any], place: Location, item: ErrorDetails) -> None:
    """Puts a stand-in at a place, or takes away a key that does not belong there."""
    around: Any = content
    for part in place[:-1]:
        around = around[part]
    part = place[-1]
    known = part in _KEYS or place[0] == "sizes"
    if isinstance(around, dict) and (not isinstance(part, str) or not known or item["type"] == "extra_forbidden"):
        around.pop(part, None)
    else:
        around[part] = _stand_in(place)


def _stand_in(place: Location) -> Any:
    key, part = str(place[0]), place[-1]
    if key in _MODELS and len(place) == 2:
        required = [name for name, field in _MODELS[key].model_fields.items() if field.is_required()]
        item = {name: _stand_in((*place, name)) for name in required}
        return item | ({"data_gen": "torch.rand"} if key in ("inputs", "parameters") else {})
    if len(place) == 1:
        return [_stand_in((key, 0))] if key in ("inputs", "outputs") else _KEYS[key].stand_in
    if key == "sizes":
        return 2
    if isinstance(part, int):
        return _ELEMENTS.get(str(place[2]), "fp32")
    value = _KEYS[part].stand_in
    return f"{value}_{key}_{place[1]}" if part in ("name", "func_name") else value


_ELEMENTS = {"dims": 1, "init": 0, "data_transform": "0", "assumes": "nonnegative"}
"""Stand-ins for elements of lists; those of types are types."""


def _message(place: Location, item: ErrorDetails) -> str:
    """What is wrong at a place, in the words of the task format."""
    if item["type"] == "extra_forbidden":
        keys = _keys(_MODELS[str(place[0])]) if len(place) > 1 else task_keys()
        near = get_close_matches(str(place[-1]), keys, 1)
        return f"unknown key; {f'did you mean {near[0]}? ' if near else ''}expected one of {', '.join(keys)}"
    if item["type"] == "missing":
        return f"this key is missing; expected {_expected(place)}"
    if item["type"] == "model_type" and place[0] == "fns" and isinstance(item["input"], str):
        return f"expected a function; a function's name, {item['input']!r}, needs {KEY}, the file that has it"
    expected = f"expected {_expected(place)}"
    if item["type"] == "value_error":
        expected = item["msg"].removeprefix("Value error, ")
    return f"{expected}, found {describe_value(item['input'])}"


def _expected(place: Location) -> str:
    """What belongs at a place, in words."""
    if not all(isinstance(part, str) for part in place[:1]):
        return "a name as key"
    if len(place) == 2 and place[0] in _MODELS:
        return f"a mapping with the keys {', '.join(_keys(_MODELS[str(place[0])]))}"
    if place[0] == "limits" and len(place) > 1 and place[1] not in FIGURES:
        return f"one of {', '.join(FIGURES)}"
    if len(place) == 2 and not isinstance(place[1], str):
        return "a symbol's name"
    at = 2 if place[0] in _MODELS and len(place) > 2 else 0
    key = _KEYS[str(place[at])]
    return key.element if len(place) > at + 1 else key.value


def task_keys() -> list[str]:
    """The keys that a task file may have."""
    return [*_keys(Task), KEY]


def _keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]
