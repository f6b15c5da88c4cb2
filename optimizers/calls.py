"""The calls of a program's predictors within one sample: what their demonstrations are made of.

Invariants: a predictor is shown what it was itself asked and answered itself, as DSPy's BootstrapFewShot does it; a
call is kept with its inputs as they were at that time, whatever the program does to them later; of several calls the
last one counts, which of calls in parallel is the last to end; what a program's own inputs and outputs tell already is
not recorded again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dspy

from optimizers.plain import plain

Fields = dict[str, Any]


class Calls(list[Any]):
    """A trace for `dspy.settings.trace`: (predictor, inputs, prediction) of every call that gave an answer."""

    def append(self, call: Any) -> None:
        """Adds a call; its inputs are copied where they can be, as programs go on adding to them."""
        predictor, inputs, prediction = call
        super().append((predictor, {name: _copied(value) for name, value in inputs.items()}, prediction))


def _copied(value: Any) -> Any:
    if isinstance(value, str | int | float):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # whatever its class may raise: what cannot be copied is kept as it is
        return value


def own_calls(
    trace: Iterable[Any],
    names: Mapping[int, str],
    program: dspy.Module,
    taught: Sequence[str],
    known: Mapping[str, Any],
) -> dict[str, Fields]:
    """The fields of each taught predictor's last call, where the program's own fields tell another story.

    Args:
        trace: The calls of a sample.
        names: Of the predictors that made them, by `id`.
        program: The program.
        taught: Names of the predictors that get demonstrations.
        known: The program's inputs and outputs.

    Returns:
        By predictor; no fields for one that was not called. One that is missing had the fields that `known` has, or
        nobody knows: it may be one of those that a program makes while it runs.
    """
    predictors = dict(program.named_predictors())
    made, strangers = _last(trace, names, predictors)
    calls: dict[str, Fields] = {}
    for name in taught:
        fields = predictors[name].signature.fields
        if name in made:
            call = {field: made[name][field] for field in fields if field in made[name]}
            if plain(call) != plain({field: known[field] for field in fields if field in known}):
                calls[name] = call
        elif not any(stranger.fields.keys() == fields.keys() for stranger in strangers):
            calls[name] = {}
    return calls


def _last(
    trace: Iterable[Any], names: Mapping[int, str], predictors: Mapping[str, dspy.Predict]
) -> tuple[dict[str, Fields], list[Any]]:
    """Each predictor's last call, by name; and the signatures of calls that are nobody's."""
    made: dict[str, Fields] = {}
    strangers = []
    for predictor, inputs, prediction in trace:
        name = names.get(id(predictor))
        if name is None:  # a copy, such as `dspy.BestOfN` makes for every try
            same = [name for name, own in predictors.items() if own.signature is predictor.signature]
            name = same[0] if len(same) == 1 else None
        if name is None:
            strangers.append(predictor.signature)
        else:
            made[name] = {**inputs, **dict(prediction.items())}
    return made, strangers
