"""A program's messages to its LM, as readable YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dspy
import yaml

from optimizers import TaskCount


def demonstrations(program: Any, keys: Sequence[str], counts: Mapping[str, TaskCount]) -> dict[str, Any]:
    """The demonstrations of a program's predictors, and the success rates of their tasks.

    `keys` are these tasks in their order, `counts` those of the tasks that this run or an earlier one solved.
    """
    known = [(key, counts[key]) for key in keys if key in counts]
    return {
        "tasks": list(keys),
        "success_rates": {k: f"{c.successes}/{c.samples} at temperature {c.temperature}" for k, c in known},
        "predictors": {name: [dict(demo.items()) for demo in each.demos] for name, each in program.named_predictors()},
    }


def messages(program: Any) -> dict[str, Any]:
    """The messages that each predictor sends, by role and text; the input fields at the end are left empty."""
    adapter = dspy.settings.adapter or dspy.ChatAdapter()
    return {
        name: adapter.format(predictor.signature, predictor.demos, {}) for name, predictor in program.named_predictors()
    }


def as_yaml(content: Any) -> str:
    """YAML with texts of several lines as literal blocks, or in quotes where a block would lose tabs or spaces."""
    return yaml.dump(_legible(content), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)


class _Dumper(yaml.SafeDumper):
    pass


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def _legible(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if isinstance(value, Mapping):
        return {key: _legible(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_legible(item) for item in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
