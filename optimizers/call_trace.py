"""The calls of a program's predictors within one sample, from which their demonstrations are made.

Invariants: a predictor is shown its own inputs and its own answer, as in DSPy's BootstrapFewShot; a call keeps the
inputs that it was made with, even if the program changes them later; calls are in order of completion; of calls with
equal inputs, such as votes, one is kept; fields that equal the program's own inputs and outputs are not recorded again.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dspy

from optimizers.jsonable import to_jsonable
from optimizers.predictors import name_of

Fields = dict[str, Any]
Chosen = tuple[Fields, ...]


class CallTrace(list[Any]):
    """A trace for `dspy.settings.trace`: (predictor, inputs, prediction) of every answered call."""

    def append(self, call: Any) -> None:
        """Adds a call; its inputs are copied where possible, since programs may change them afterwards."""
        predictor, inputs, prediction = call
        super().append((predictor, copied_fields(inputs), prediction))


def copied_fields(fields: Mapping[str, Any]) -> Fields:
    """A copy of fields with values that programs may change, such as an agent's history."""
    return {name: _copied(value) for name, value in fields.items()}


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
) -> dict[str, Chosen]:
    """The fields of each taught predictor's calls, where they differ from the program's own fields.

    Args:
        trace: The calls of a sample, as predictors, inputs and outputs.
        names: Names of the predictors that made them, as `requests.predictor_names` gives them.
        program: The program.
        taught: Names of the predictors that get demonstrations.
        known: The program's inputs and outputs.

    Returns:
        Calls by predictor, none for one that was not called. A predictor is omitted if its one call has the fields of
        `known`, or if a call of the same signature could not be attributed: programs may create predictors as they run.
    """
    predictors = dict(program.named_predictors())
    made: dict[str, list[Fields]] = {}
    unattributed = []
    for predictor, inputs, outputs in trace:
        if (name := name_of(predictor, names)) is None:
            unattributed.append(predictor.signature)
        else:
            made.setdefault(name, []).append({**inputs, **outputs})
    calls: dict[str, Chosen] = {}
    for name in taught:
        fields = predictors[name].signature.fields
        if name in made:
            inputs = predictors[name].signature.input_fields
            chosen = _distinct([{f: call[f] for f in fields if f in call} for call in made[name]], inputs, known)
            if to_jsonable(chosen) != to_jsonable([{field: known[field] for field in fields if field in known}]):
                calls[name] = chosen
        elif not any(signature.fields.keys() == fields.keys() for signature in unattributed):
            calls[name] = ()
    return calls


def _distinct(calls: Iterable[Fields], inputs: Iterable[str], known: Mapping[str, Any]) -> Chosen:
    """One call for each set of inputs, at the place of the last: the last that agrees with the program's fields.

    A program that votes, or tries again until it is satisfied, asks the same more than once, and rejects answers.
    """
    kept: dict[str, Fields] = {}
    names = set(inputs)
    for call in calls:
        key = json.dumps(to_jsonable({name: call[name] for name in call if name in names}), sort_keys=True)
        before = kept.pop(key, None)
        answers = [name for name in call if name in known and name not in names]
        rejected = any(to_jsonable(call[name]) != to_jsonable(known[name]) for name in answers)
        agreed = before and all(to_jsonable(before.get(name)) == to_jsonable(known[name]) for name in answers)
        kept[key] = before if before and agreed and rejected else call
    return tuple(kept.values())
