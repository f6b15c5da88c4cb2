"""The primitives of STeP: for each its rule on types and shapes, and its execution, side by side."""

from step_runtime.primitives.arithmetic import Accum, Map, Scan, Zip
from step_runtime.primitives.primitive import Frame, Operand, Primitive, Rules
from step_runtime.primitives.routing import Merge, Partition
from step_runtime.primitives.structural import (
    Bufferize,
    Copy,
    Flatten,
    Identity,
    Promote,
    Repeat,
    RepeatRef,
    Reshape,
    Streamify,
)

RepeatLast = Repeat

PRIMITIVES: dict[str, type[Primitive]] = {
    "Accum": Accum,
    "Bufferize": Bufferize,
    "Copy": Copy,
    "Flatten": Flatten,
    "Identity": Identity,
    "Map": Map,
    "Merge": Merge,
    "Partition": Partition,
    "Promote": Promote,
    "Repeat": Repeat,
    "RepeatLast": RepeatLast,
    "RepeatRef": RepeatRef,
    "Reshape": Reshape,
    "Scan": Scan,
    "Streamify": Streamify,
    "Zip": Zip,
}
"""Every name that `step.NAME` may have in a program."""

__all__ = [
    "PRIMITIVES",
    "Accum",
    "Bufferize",
    "Copy",
    "Flatten",
    "Frame",
    "Identity",
    "Map",
    "Merge",
    "Operand",
    "Partition",
    "Primitive",
    "Promote",
    "Repeat",
    "RepeatLast",
    "RepeatRef",
    "Reshape",
    "Rules",
    "Scan",
    "Streamify",
    "Zip",
]
