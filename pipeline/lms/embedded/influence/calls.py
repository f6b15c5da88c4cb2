"""What is known of calls of PyTorch, by their names."""

from __future__ import annotations

from typing import Any

from pipeline.lms.embedded.influence import (
    activation_calls,
    algebra_calls,
    choice_calls,
    constant_calls,
    dim_calls,
    layer_calls,
    loss_calls,
    shape_calls,
    type_calls,
    value_calls,
    window_calls,
)
from pipeline.lms.embedded.influence.arrays import Array, Unread, Word

CALLS = {
    **shape_calls.CALLS, **constant_calls.CALLS, **value_calls.CALLS, **dim_calls.CALLS, **type_calls.CALLS,
    **activation_calls.CALLS, **choice_calls.CALLS, **algebra_calls.CALLS,
    **window_calls.CALLS, **loss_calls.CALLS, **layer_calls.CALLS,
}  # fmt: skip
_MODULES = {name.replace("_", ""): name for name in CALLS}
_ALIASES = {"axis": "dim", "axes": "dim", "keepdims": "keepdim"}


def called(name: str, args: list[Any], named: dict[str, Any]) -> Any:
    """The result of a call.

    Raises:
        Unread: Nothing is known of it.
    """
    call = CALLS.get(name)
    if call is None:
        raise Unread(f"the call {name}")
    named = {_ALIASES.get(key, key): value for key, value in named.items()}
    for first in ("input", "self"):
        if first in named:
            args = [named.pop(first), *args]
    if name in ("view", "to") and len(args) == 2 and isinstance(args[1], Word):
        return (type_calls.converted if name == "to" else type_calls.reinterpreted)(*args)
    kind = named.pop("dtype", None) if name not in ("to", "finfo", "iinfo") else None
    result = call(*args, **named)
    return type_calls.converted(result, kind) if isinstance(kind, Word) and isinstance(result, Array) else result


def module_named(name: str) -> str:
    """The call that a module of `torch.nn` makes, such as `max_pool2d` of `MaxPool2d`.

    Raises:
        Unread: There is none that is known.
    """
    plain = name.lower().replace("bce", "binarycrossentropy")
    found = _MODULES.get(plain, _MODULES.get(plain.removesuffix("loss")))
    if found is None:
        raise Unread(f"the module {name}")
    return found
