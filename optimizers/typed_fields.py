"""Fields with the types of a signature, from JSON data: of the journal of an interrupted run, or of a loaded record."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import dspy
from dspy.signatures.signature import SignatureMeta
from pydantic import TypeAdapter

from optimizers.attempt import Attempt, Calls

T = TypeVar("T")
Types = Mapping[str, Any]
"""Annotations by field; plain texts are omitted."""


def with_types(fields: Mapping[str, Any], types: Types) -> dict[str, Any]:
    """The fields, each with its annotated type; a value that does not fit its annotation stays as it is."""
    return {name: _typed(value, types[name]) if name in types else value for name, value in fields.items()}


def signature_types(*signatures: Any) -> dict[str, Any]:
    """The types of the signatures' fields; a field on whose type they disagree is omitted."""
    return _agreed(pair for each in signatures for pair in _annotations(each.fields))


class ProgramTypes:
    """The types of a program's fields: those that the signatures of its modules give to fields of these names."""

    def __init__(self, program: dspy.Module) -> None:
        # An agent's own signature has fields that none of its predictors has.
        modules = [module for _, module in program.named_sub_modules()]
        signatures = [own for module in modules if isinstance(own := getattr(module, "signature", None), SignatureMeta)]
        answers = _agreed(pair for each in signatures for pair in _annotations(each.output_fields))
        given = _agreed(pair for each in signatures for pair in _annotations(each.input_fields))
        self._fields = given | answers
        self._calls = {name: signature_types(each.signature) for name, each in program.named_predictors()}

    def outputs(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Fields of the program's prediction."""
        return self._restored(outputs, self._fields)

    def calls(self, calls: Calls) -> Calls:
        """Fields of calls, by predictor."""
        return {
            name: tuple(self._restored(call, self._calls.get(name, {})) for call in own) for name, own in calls.items()
        }

    def _restored(self, fields: Mapping[str, Any], types: Types) -> dict[str, Any]:
        """Fields with these types; the messages of a conversation have fields of the program themselves."""
        return {
            name: dspy.History(messages=[with_types(message, self._fields) for message in value.messages])
            if isinstance(value, dspy.History)
            else value
            for name, value in with_types(fields, types).items()
        }

    def entry(self, entry: T) -> T:
        """The entry, its answer's fields with their types."""
        found: Any = entry
        return replace(found, outputs=self.outputs(found.outputs), calls=self.calls(found.calls))  # type: ignore[no-any-return]

    def attempt(self, attempt: Attempt) -> Attempt:
        """The attempt, its fields with their types."""
        return replace(attempt, outputs=self.outputs(attempt.outputs), calls=self.calls(attempt.calls))


def _annotations(fields: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return ((name, field.annotation) for name, field in fields.items())


def _agreed(annotations: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, list[Any]] = {}
    for name, annotation in annotations:
        found.setdefault(name, []).append(annotation)
    return {
        name: first
        for name, (first, *others) in found.items()
        if first is not str and all(each == first for each in others)
    }


def _typed(value: Any, annotation: Any) -> Any:
    try:
        # Strictly, as JSON: a program may give a text where its predictor's field is a number.
        return _adapter(annotation).validate_json(json.dumps(value), strict=True)
    except Exception:  # it is no JSON data and has its type already; or a user's class raises anything
        return value


@functools.lru_cache(maxsize=256)
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)
