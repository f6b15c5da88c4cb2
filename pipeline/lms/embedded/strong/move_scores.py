"""The scores of ways to bring streams to one shape and to fold them, in the units of the softmax at sharpness 1."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MoveScores:
    """What each property of a way counts.

    Attributes:
        cost: Each unit of a coercion's cost.
        scan: A Scan, against an Accum.
        gone: Each dim that Accum folds and the outputs lack; as much against it for one that they have.
        placeholder: A fold of the outermost dim.
        deeper: Each dim after the first that is folded at once.
        repeated: Folding with Accum what was just repeated.
        batch: Folding the outermost dim of all inputs and outputs.
        alone: A stream that meets itself, each element only itself.
        counted: Folding the dims whose sizes a function computes with that can take the result, and against others.
        emits: Scanning with a function that emits.
        emitted: Reducing with it.
        habit: The log of how much more often solved tasks fold so.
        broadcast: Repeating along a dim that another operand has.
        invented: Repeating along one that none has.
        reshaped: Merging or splitting dims.
        recut: Moving dims into Buffers or out of them.
        met: Elements that all meet along a dim, where the reference does so.
        across: The same where it does not.
        grown: A fold at the larger shape of another stream.
        unordered: A Scan where the reference has no order.
    """

    cost: float = -0.8
    scan: float = -0.7
    gone: float = 0.6
    placeholder: float = -0.8
    deeper: float = -0.8
    repeated: float = -2.0
    batch: float = -3.0
    alone: float = -7.0
    counted: float = 1.5
    emits: float = 2.0
    emitted: float = -4.0
    habit: float = 0.7
    broadcast: float = -0.3
    invented: float = -3.0
    reshaped: float = -0.3
    recut: float = -0.1
    met: float = 1.0
    across: float = -2.5
    grown: float = -1.0
    unordered: float = -2.0


BY_HAND = MoveScores()
"""For drafts that are sampled one by one."""
FITTED = MoveScores(
    cost=-1.49,
    scan=-0.4,
    gone=0.32,
    placeholder=-0.51,
    deeper=-0.74,
    repeated=-0.94,
    batch=-3.6,
    alone=-2.95,
    counted=0.78,
    emits=0.97,
    emitted=-4.11,
    habit=0.42,
    broadcast=-0.58,
    invented=-2.8,
    reshaped=-0.18,
    recut=-0.07,
    met=1.15,
    across=-2.79,
    grown=-0.62,
    unordered=-3.98,
)
"""For beam searches: fitted to solved tasks."""
