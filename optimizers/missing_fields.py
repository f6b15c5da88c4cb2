"""Answers that lack output fields: an exception for this reason is a wrong answer, not a failure of the program.

Adapters fill fields that an LM leaves out with None; a program may also return a prediction without them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import dspy

_NAME = re.compile(r"attribute '(\w+)'")


def fields_of(result: Any) -> dict[str, Any]:
    """The fields of a program's result; a value that has none is one itself, `prediction`.

    Raises:
        TypeError: It gives None.
    """
    if result is None:
        raise TypeError("the program gave None, expected a dspy.Prediction")
    return dict(result.items()) if isinstance(result, dspy.Example | Mapping) else {"prediction": result}


def lacks_fields(error: BaseException, program: Any, calls: Sequence[Any], prediction: Any = None) -> bool:
    """Whether an exception of the program or the metric is due to an output field that the LM left out.

    It names an output field of the program that the prediction does not have, or it is about a None, and some output
    field of a call is None.

    Args:
        error: The exception.
        program: The program.
        calls: The sample's calls as predictors, inputs and predictions.
        prediction: The program's result, if any.
    """
    if isinstance(error, AttributeError | KeyError) and isinstance(prediction, dspy.Example):
        fields = {name for predictor in program.predictors() for name in predictor.signature.output_fields}
        if (name := _missing_name(error)) in fields and name not in prediction:
            return True
    if not isinstance(error, AttributeError | TypeError) or "NoneType" not in str(error):
        return False
    answers = [outputs for *_, outputs in calls] + ([] if prediction is None else [fields_of(prediction)])
    return any(value is None for outputs in answers for _, value in outputs.items())


def last_answer(calls: Sequence[Any]) -> str:
    """The output fields of the last call, as a text."""
    return str(dict(calls[-1][2].items())) if calls else ""


def _missing_name(error: AttributeError | KeyError) -> str | None:
    """The name that an object or a mapping does not have."""
    if isinstance(error, KeyError):
        return str(error.args[0]) if error.args else None
    found = _NAME.search(str(error))
    return found.group(1) if found else None
