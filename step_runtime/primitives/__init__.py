"""The primitives of STeP: for each its rule on types and shapes, its execution and the facts about it, together.

A new primitive is a class in one of the modules below, and a name in its `__all__`.
"""

from step_runtime.primitives import arithmetic, routing, structural
from step_runtime.primitives.arithmetic import *  # noqa: F403
from step_runtime.primitives.primitive import Frame, Kind, Operand, Primitive, Rules
from step_runtime.primitives.routing import *  # noqa: F403
from step_runtime.primitives.structural import *  # noqa: F403

PRIMITIVES: dict[str, type[Primitive]] = {
    name: vars(module)[name] for module in (arithmetic, routing, structural) for name in module.__all__
}
"""Every name that `step.NAME` may have in a program."""

__all__ = ["PRIMITIVES", "Frame", "Kind", "Operand", "Primitive", "Rules"]
__all__ += arithmetic.__all__
__all__ += routing.__all__
__all__ += structural.__all__
