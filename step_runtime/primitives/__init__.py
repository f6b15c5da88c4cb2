"""The primitives of STeP: for each its rule on types and shapes, its execution and the facts about it, together."""

from step_runtime.primitives import registry
from step_runtime.primitives.primitive import Frame, Kind, Operand, Primitive, Rules
from step_runtime.primitives.registry import *  # noqa: F403
from step_runtime.primitives.registry import PRIMITIVES

__all__ = ["PRIMITIVES", "Frame", "Kind", "Operand", "Primitive", "Rules"]
__all__ += registry.__all__
