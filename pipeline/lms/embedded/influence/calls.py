"""What is known of calls of PyTorch, by their names."""

from __future__ import annotations

from typing import Any

from pipeline.lms.embedded.influence import layer_calls, shape_calls, value_calls
from pipeline.lms.embedded.influence.arrays import Unread

CALLS = {**shape_calls.CALLS, **value_calls.CALLS, **layer_calls.CALLS}


def called(name: str, args: list[Any], named: dict[str, Any]) -> Any:
    """The result of a call.

    Raises:
        Unread: Nothing is known of it.
    """
    call = CALLS.get(name)
    if call is None:
        raise Unread(f"the call {name}")
    if "axis" in named:
        named["dim"] = named.pop("axis")
    if "input" in named:
        args = [named.pop("input"), *args]
    return call(*args, **named)
