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
    cost=-1.75,
    scan=-0.23,
    gone=0.3,
    placeholder=-0.26,
    deeper=-0.99,
    repeated=-1.26,
    batch=-4.07,
    alone=-2.68,
    counted=0.52,
    emits=0.78,
    emitted=-5.36,
    habit=0.23,
    broadcast=-0.9,
    invented=-4.18,
    reshaped=-0.12,
    recut=-0.04,
    met=1.17,
    across=-2.91,
    grown=-1.02,
    unordered=-3.61,
)
"""For beam searches: fitted to solved tasks."""
