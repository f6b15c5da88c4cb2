"""What a program shows its LM, as data that YAML writes legibly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from optimizers import TaskCount


def demonstrations(program: Any, keys: Sequence[str], earned: Mapping[str, TaskCount]) -> dict[str, Any]:
    """The demonstrations of a program's predictors, and how often each task was answered rightly when it was solved.

    Args:
        program: a `dspy.Module`.
        keys: the tasks that serve as demonstrations, in their order.
        earned: the counts of the tasks that this run solved.
    """
    known = [(key, earned[key]) for key in keys if key in earned]
    return {
        "tasks": list(keys),
        "success_rates": {k: f"{c.successes}/{c.samples} at temperature {c.temperature}" for k, c in known},
        "predictors": {
            name: [{field: _plain(value) for field, value in demo.items()} for demo in predictor.demos]
            for name, predictor in program.named_predictors()
        },
    }


def messages(program: Any) -> dict[str, Any]:
    """The messages that each predictor sends, by role and text; the input fields at the end are left empty."""
    import dspy

    adapter = dspy.settings.adapter or dspy.ChatAdapter()
    return {
        name: adapter.format(predictor.signature, predictor.demos, {}) for name, predictor in program.named_predictors()
    }


def as_yaml(content: Any) -> str:
    """YAML with texts of several lines as literal blocks; spaces at the ends of their lines are left out."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        """Equal values are written out."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if "\n" not in text:
        return dumper.represent_str(text)
    # YAML has no literal block for a line that ends in a space.
    legible = "\n".join(line.rstrip() for line in text.expandtabs(4).split("\n"))
    return dumper.represent_scalar("tag:yaml.org,2002:str", legible, style="|")


_Dumper.add_representer(str, _text)


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return value if value is None or isinstance(value, str | int | float | bool | list | dict) else str(value)
