"""The primitives of the language by name. A new one is imported and listed here, and nowhere else in the package."""

from step_runtime.primitives.arithmetic import Accum, Map, Scan, Zip
from step_runtime.primitives.primitive import Primitive
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

__all__ = [
    "Accum",
    "Bufferize",
    "Copy",
    "Flatten",
    "Identity",
    "Map",
    "Merge",
    "Partition",
    "Promote",
    "Repeat",
    "RepeatLast",
    "RepeatRef",
    "Reshape",
    "Scan",
    "Streamify",
    "Zip",
]

PRIMITIVES: dict[str, type[Primitive]] = {name: globals()[name] for name in __all__}
"""Every name that `step.NAME` may have in a program."""
