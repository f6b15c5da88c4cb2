"""Checks of an optimizer's arguments, made before anything is sampled.

Invariant: an error is a TypeError or a ValueError of one line, and names the argument, or the example by its place.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from typing import Annotated, Any, TypeVar, dataclass_transform

import dspy
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from optimizers.attempt import to_jsonable
from optimizers.errors import one_line

logger = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def validated(cls: type[T]) -> type[T]:
    """The class as a frozen dataclass whose arguments are checked, strictly, by their annotations."""
    made: Any = dataclass(frozen=True, config=ConfigDict(strict=True, arbitrary_types_allowed=True))(cls)
    plain = made.__init__

    @functools.wraps(plain)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        named = dict(zip((each.name for each in dataclasses.fields(made)), args, strict=False))
        try:
            plain(self, **named, **kwargs)
        except ValidationError as error:
            raise _mistake(error) from None

    made.__init__ = init
    return made  # type: ignore[no-any-return]


def _mistake(error: ValidationError) -> Exception:
    """The first mistake, in a line."""
    first = error.errors(include_url=False)[0]
    place, kind = ".".join(map(str, first["loc"][:1])), first["type"]
    if kind == "value_error" and not place:  # of the class's own check
        return first["ctx"]["error"]  # type: ignore[no-any-return]
    if kind in ("unexpected_keyword_argument", "missing_argument", "missing"):
        return TypeError(f"{place}: {'no such argument' if kind.startswith('un') else 'this argument is missing'}")
    message = first["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    found = f"{message}, found {' '.join(repr(first['input']).split()):.80}"
    wrong_type = kind.endswith(("_type", "_parsing", "_instance_of", "_exact_type", "callable_type"))
    return (TypeError if wrong_type else ValueError)(f"{place}: {found}")


def _as_tuple(values: Any) -> Any:
    several = isinstance(values, Iterable) and not isinstance(values, str)
    return tuple(value.item() if hasattr(value, "item") else value for value in values) if several else values


def _distinct(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(set(values)) < len(values):
        raise ValueError("a temperature is given twice")
    return values


Temperatures = Annotated[
    tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...],
    Field(min_length=1),
    BeforeValidator(_as_tuple),
    AfterValidator(_distinct),
]
"""Sampling temperatures: one or more numbers from 0 up, each once, in any sequence."""


def checked_lms(student: dspy.Module) -> None:
    """Checks that every predictor has an LM.

    Raises:
        TypeError: The value that is set as the LM is not an LM.
        ValueError: No LM is set.
    """
    lms = [predictor.lm for predictor in student.predictors()]
    if dspy.settings.lm is None and (not lms or None in lms):
        raise ValueError("no LM is set: dspy.configure(lm=dspy.LM(...)) before compiling")
    for lm in (dspy.settings.lm, *lms):
        if lm is not None and not isinstance(lm, dspy.BaseLM):
            raise TypeError(f"the LM that is set is {lm!r:.80}, expected a dspy.LM: dspy.configure(lm=dspy.LM(...))")


def named_examples(
    examples: Sequence[dspy.Example], name: str, task_key: Callable[[dspy.Example], Any]
) -> dict[str, dspy.Example]:
    """The examples of a set by their names (`Domain.task_key`); repeated ones are numbered, as in `NAME#2`.

    Messages call the set `name`.

    Raises:
        TypeError: An element is not an example, or its name is neither a text nor a whole number.
        ValueError: There are none, one has no inputs, or two with different inputs have the same name.
    """
    if not examples:
        raise ValueError(f"the {name} is empty")
    named: dict[str, dspy.Example] = {}
    expected: set[str] | None = None
    for index, example in enumerate(examples):
        place = f"{name}[{index}]"
        if not isinstance(example, dspy.Example):
            raise TypeError(f"{place}: expected a dspy.Example, found {type(example).__name__}")
        inputs = _inputs(place, example)
        expected = inputs if expected is None else expected
        if inputs != expected:  # some inputs may be optional
            logger.warning("%s: its inputs are %s, those of %s[0] %s", place, _listed(inputs), name, _listed(expected))
        try:
            key = task_key(example)
        except Exception as error:
            raise ValueError(f"{place}: Domain.task_key failed: {one_line(error)}") from error
        if not isinstance(key, str | int):
            raise TypeError(f"{place}: Domain.task_key gave {key!r:.80}, expected a str, or an int")
        key = str(key)
        if key in named and str(to_jsonable(named[key].inputs())) != str(to_jsonable(example.inputs())):
            same = f"{name}[{list(named).index(key)}] and {place} are both named {key!r} by Domain.task_key"
            raise ValueError(f"{same}; expected different names for different inputs")
        named[_apart(key, named)] = example
    return named


def _inputs(place: str, example: dspy.Example) -> set[str]:
    try:
        return set(example.inputs().keys())
    except ValueError:
        raise ValueError(f"{place}: its input fields are not set; use example.with_inputs(...)") from None


def _apart(key: str, known: Collection[str]) -> str:
    """The name itself, or a numbered one for a repeated example, which is a task of its own."""
    return next(name for number in count(1) if (name := key if number == 1 else f"{key}#{number}") not in known)


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
