"""What a program costs the chip: memory, off-chip traffic, operations, time and queues, from its checked graph alone.

- chip: the chip, and its YAML file
- weights: what torch's operators count as
- operations: the operations of a function, by its recorded operators
- timeline: when every token of every stream comes
- queues: how much waits before joins
- model: the cost at given sizes
- formulas: the cost as polynomials in the dims
- front: which of several programs no other beats

The rules of each primitive are beside its type rule, in `step_runtime.primitives`.
"""

from step_runtime.base.measures import FIGURES, UNITS, Figure
from step_runtime.cost.chip import DEFAULT_CHIP, Chip, load_chip
from step_runtime.cost.model import Cost, estimate
from step_runtime.cost.operations import OperationCounter

__all__ = [
    "DEFAULT_CHIP",
    "FIGURES",
    "UNITS",
    "Chip",
    "Cost",
    "Figure",
    "OperationCounter",
    "estimate",
    "load_chip",
]
