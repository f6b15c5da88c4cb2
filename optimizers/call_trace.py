"""The calls of a program's predictors within one sample, from which their demonstrations are made.

Invariants: a predictor is shown its own inputs and its own answer, as in DSPy's BootstrapFewShot; a call keeps the
inputs that it was made with, even if the program changes them later; of several calls the last one counts, which among
parallel calls is the last to end; fields that equal the program's own inputs and outputs are not recorded again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dspy

from optimizers.jsonable import to_jsonable

Fields = dict[str, Any]


class CallTrace(list[Any]):
    """A trace for `dspy.settings.trace`: (predictor, inputs, prediction) of every answered call."""

    def append(self, call: Any) -> None:
        """Adds a call; its inputs are copied where possible, since programs may change them afterwards."""
        predictor, inputs, prediction = call
        super().append((predictor, {name: _copied(value) for name, value in inputs.items()}, prediction))


def _copied(value: Any) -> Any:
    if isinstance(value, str | int | float):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # its class may raise anything; a value that cannot be copied is kept unchanged
        return value


def recorded_calls(
    trace: Iterable[Any],
    names: Mapping[int, str],
    program: dspy.Module,
    taught: Sequence[str],
    known: Mapping[str, Any],
) -> dict[str, Fields]:
    """The fields of each taught predictor's last call, where they differ from the program's own fields.

    Args:
        trace: The calls of a sample.
        names: Names of the predictors that made them, by `id`.
        program: The program.
        taught: Names of the predictors that get demonstrations.
        known: The program's inputs and outputs.

    Returns:
        Fields by predictor, empty for one that was not called. A predictor is omitted if its fields are those of
        `known`, or if a call of the same signature could not be attributed: programs may create predictors as they run.
    """
    predictors = dict(program.named_predictors())
    made, unattributed = _last_calls(trace, names, predictors)
    calls: dict[str, Fields] = {}
    for name in taught:
        fields = predictors[name].signature.fields
        if name in made:
            call = {field: made[name][field] for field in fields if field in made[name]}
            if to_jsonable(call) != to_jsonable({field: known[field] for field in fields if field in known}):
                calls[name] = call
        elif not any(signature.fields.keys() == fields.keys() for signature in unattributed):
            calls[name] = {}
    return calls


def _last_calls(
    trace: Iterable[Any], names: Mapping[int, str], predictors: Mapping[str, dspy.Predict]
) -> tuple[dict[str, Fields], list[Any]]:
    """Each predictor's last call, by name; and the signatures of calls that belong to no known predictor."""
    made: dict[str, Fields] = {}
    unattributed = []
    for predictor, inputs, prediction in trace:
        name = names.get(id(predictor))
        if name is None:  # a copy, such as `dspy.BestOfN` makes for every attempt
            same = [name for name, own in predictors.items() if own.signature is predictor.signature]
            name = same[0] if len(same) == 1 else None
        if name is None:
            unattributed.append(predictor.signature)
        else:
            made[name] = {**inputs, **dict(prediction.items())}
    return made, unattributed
