"""The predictors of a program by name, also as copies of them run, and the LMs that its modules hold."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dspy

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
