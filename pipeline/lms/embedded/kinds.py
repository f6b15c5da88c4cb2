"""Kinds: what models of programs know of a type, a dim or a node, without any names.

A type is known by its structure, a dim by whether the outputs have it too, and a function by the primitive that applies
it and the kinds of its types, so that one task is evidence about others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pipeline.lms.embedded.types.coercions import ONE, dims_of, without_ones
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Dim
from step_runtime.base.types import Buffer, DType, Multihot, StreamType, STuple
from step_runtime.primitives import Bufferize, Flatten, Primitive, Promote, Repeat, RepeatRef

Kind: TypeAlias = tuple[str, ...]
ROUTE: Kind = ("Route",)

PASSED = ("Zip", "Copy", "Identity")
"""Primitives that leave a stream's elements unchanged."""


def kind_of(dtype: DType) -> str:
    """A type without its dims."""
    if isinstance(dtype, STuple):
        return f"[{','.join(kind_of(part) for part in dtype.components)}]"
    if isinstance(dtype, Buffer):
        return f"{kind_of(dtype.elem)}{len(dtype.dims)}"
    return "m" if isinstance(dtype, Multihot) else "s"


@dataclass(frozen=True)
class Context:
    """What the kinds of one task's program depend on: its outputs' dims, and which functions emit.

    A function emits if a part of its state is never read by its next step.
    """

    kept: frozenset[Dim]
    emitting: frozenset[str]

    @classmethod
    def of(cls, outputs: Sequence[StreamType], emitting: frozenset[str]) -> Context:
        """The context of a task with these outputs."""
        return cls(frozenset(dim for output in outputs for dim in without_ones(dims_of(output))), emitting)

    def fold_kind(self, scan: bool, fn: Fn, inner: Sequence[Dim]) -> Kind:
        """A fold by its function's state, and by what it folds: dims that the outputs have, or dims that disappear."""
        stays = "kept" if all(dim in self.kept for dim in inner) else "gone"
        state = "emits" if fn.label in self.emitting else "state" if isinstance(fn.output, STuple) else "value"
        return ("Scan" if scan else "Accum", state, stays)


def map_kind(fn: Fn) -> Kind:
    """The kind of a Map."""
    return ("Map", kind_of(fn.input), kind_of(fn.output))


def structure_kind(op: Primitive, source: StreamType, context: Context, result: StreamType) -> Kind:
    """The kind of a structural primitive: by its effect on the dims."""
    match op:
        case Promote(b=b):
            return (op.name, "outside" if b == len(source.shape) else "inside")
        case Repeat() | RepeatRef():
            return (op.name, "kept" if result.shape[0] in context.kept else "gone")
        case Flatten():
            return (op.name, "padding" if ONE in source.shape else "dims")
        case Bufferize(a=a):
            return (op.name, str(a))
    return (op.name,)
