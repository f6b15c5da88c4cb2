"""Checks of an optimizer's arguments, made before anything is sampled.

Invariant: an error names the argument, or the example by its place.

Hand-written, since Pydantic raises one ValidationError over several lines, where callers get a TypeError or a
ValueError of one line.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from numbers import Real
from typing import Any

import dspy

from optimizers.errors import one_line
from optimizers.jsonable import to_jsonable

logger = logging.getLogger(__name__)


def checked_count(name: str, value: Any, least: int = 1) -> None:
    """Checks for a whole number of at least `least`.

    Raises:
        TypeError: It is not a whole number.
        ValueError: It is less.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name}: expected a whole number, found {value!r}")
    if value < least:
        raise ValueError(f"{name} is at least {least}, not {value}")


def checked_temperatures(values: Any) -> tuple[float, ...]:
    """Sampling temperatures as a tuple.

    Raises:
        TypeError: They are not a sequence of numbers.
        ValueError: There are none, or one is negative, not finite, or given twice.
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"temperatures: expected a sequence of numbers, such as (0.4, 0.7), found {values!r}")
    for value in (found := tuple(values)):
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError(f"temperatures: expected numbers, found {value!r}")
    numbers = tuple(float(value) for value in found)
    if not numbers or not all(0 <= number < float("inf") for number in numbers):
        raise ValueError(f"temperatures are one or more numbers from 0 up, not {found}")
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"a temperature is given twice: {found}")
    return numbers


def checked_type(name: str, value: Any, expected: type, description: str) -> None:
    """Checks for a value of the expected type, described in messages as `description`.

    Raises:
        TypeError: It has another type.
    """
    if not isinstance(value, expected):
        raise TypeError(f"{name}: expected {description}, found {type(value).__name__}")


def checked_limits(options: Any) -> None:
    """Checks the options of a `Driver` that are numbers under DSPy's names.

    Raises:
        TypeError: One is not a number, or not a whole one where it counts.
        ValueError: One is out of its range.
    """
    for name, least in (("max_demos", 0), ("max_errors", 1)):
        if getattr(options, name) is not None:
            checked_count(name, getattr(options, name), least)
    for name in ("metric_threshold", "failure_score", "stop_at_score"):
        value = getattr(options, name)
        if value is not None and (not isinstance(value, Real) or not math.isfinite(value)):
            raise TypeError(f"{name}: expected a finite number, found {value!r}")


def checked_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Checks for one of the names in `choices`.

    Raises:
        TypeError: It is not a text.
        ValueError: It is another text.
    """
    checked_type(name, value, str, f"one of {', '.join(choices)}")
    if value not in choices:
        raise ValueError(f"{name}: expected one of {', '.join(choices)}, found {value!r}")


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
        key = _key(place, example, task_key)
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


def _key(place: str, example: dspy.Example, task_key: Callable[[dspy.Example], Any]) -> str:
    try:
        key = task_key(example)
    except Exception as error:
        raise ValueError(f"{place}: Domain.task_key failed: {one_line(error)}") from error
    if not isinstance(key, str | int):
        raise TypeError(f"{place}: Domain.task_key gave {key!r:.80}, expected a str, or an int")
    return str(key)


def _apart(key: str, known: Collection[str]) -> str:
    """The name itself, or a numbered one for a repeated example, which is a task of its own."""
    return next(name for number in count(1) if (name := key if number == 1 else f"{key}#{number}") not in known)


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
