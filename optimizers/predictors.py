"""The predictors of a program by name, also as copies of them run, and the LMs that its modules hold."""

from __future__ import annotations

import copy
import functools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import dspy
from dspy.signatures.signature import SignatureMeta
from pydantic import TypeAdapter

from optimizers.attempt import Attempt, Calls

OTHER = "other"
"""The name for requests that no predictor of the program made."""


def predictor_names(program: dspy.Module) -> dict[Any, str]:
    """The names of a program's predictors, by `id`, and by what their copies keep, where no two share it.

    Those that DSPy teaches nothing are among them: of a compiled part, and in lists within lists.
    """
    named = program.named_predictors()
    known = {id(predictor) for _, predictor in named}
    parts = [(name, each) for name, each in program.named_sub_modules(dspy.Predict) if id(each) not in known]
    named += [(name.removeprefix("self."), each) for name, each in parts if "candidate_programs" not in name]
    kept = Counter(mark for _, predictor in named for mark in _kept_by_copies(predictor))
    alone = {mark: name for name, predictor in named for mark in _kept_by_copies(predictor) if kept[mark] == 1}
    return alone | {id(predictor): name for name, predictor in named}


def _kept_by_copies(predictor: dspy.Predict) -> tuple[Any, ...]:
    """The random name that DSPy gives each predictor, and its signature."""
    return predictor.stage, id(predictor.signature)


def name_of(module: Any, names: Mapping[Any, str]) -> str | None:
    """The name of a predictor, or of one that it is a copy of, such as `dspy.BestOfN` makes for every attempt."""
    marks = (id(module), *(_kept_by_copies(module) if isinstance(module, dspy.Predict) else ()))
    return next((names[mark] for mark in marks if mark in names), None)


def innermost_predictor(callers: Sequence[Any], names: Mapping[Any, str]) -> str:
    """The name of the innermost running module that has one."""
    return next((name for module in reversed(callers) if (name := name_of(module, names))), OTHER)


def held(program: dspy.Module, kind: type = dspy.BaseLM) -> list[Any]:
    """The LMs, or the objects of another kind, that the program's modules hold."""
    found: list[Any] = []
    replace_lms(program, found.append, kind)
    return found


def replace_lms(
    value: Any, replace: Callable[[Any], Any], kind: type = dspy.BaseLM, seen: dict[int, Any] | None = None
) -> Any:
    """A copy of a program in which every LM, or object of another kind, is replaced by what `replace` returns for it.

    Only modules, and the lists, tuples and dicts in them, are copied; everything else is shared.
    """
    seen = {} if seen is None else seen
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, kind):
        seen[id(value)] = replace(value)
    elif isinstance(value, dspy.Module):
        seen[id(value)] = twin = copy.copy(value)
        twin.callbacks = value.callbacks
        for name, part in vars(value).items():
            if name not in ("history", "callbacks"):
                setattr(twin, name, replace_lms(part, replace, kind, seen))
    elif type(value) in (list, tuple):
        seen[id(value)] = type(value)(replace_lms(item, replace, kind, seen) for item in value)
    elif type(value) is dict:
        seen[id(value)] = {key: replace_lms(item, replace, kind, seen) for key, item in value.items()}
    else:
        return value
    return seen[id(value)]


# --- fields with the types of a signature, from the JSON data of a journal or a record --------------------------------

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
    except Exception:  # not JSON: the value has its type already, or a class of the user raises
        return value


@functools.lru_cache(maxsize=256)
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)
