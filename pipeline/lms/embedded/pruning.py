"""Leaves out of a draft what its outputs do not need: steps that looked like a way and were none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipeline.lms.embedded.layout import Plan
from pipeline.lms.embedded.moves import Draft
from pipeline.lms.embedded.space import Space
from pipeline.lms.embedded.trail import Trail
from step_runtime.base.functions import Fn
from step_runtime.primitives import Repeat


def pruned(space: Space, draft: Draft, trail: Trail, needed: set[Fn]) -> Draft | None:
    """The part of a draft that leads to the outputs as they were read; None if there is none.

    It must use every input and every function that is `needed`.
    """
    found = [_read(space, draft, trail, output) for output in range(len(space.outputs))]
    ends = [end for end in found if end is not None]
    if len(ends) < len(found):
        return None
    first = len(space.inputs)
    live = _live(draft, first, [stream for stream, _ in ends])
    kept = [place for place in range(len(draft.moves)) if first + place in live]
    used = {fn for place in kept for fn in draft.moves[place].functions()}
    if used != needed or not live.issuperset(range(first)):
        return None
    number = {old: new for new, old in enumerate([*range(first), *(first + place for place in kept)])}
    lean = Draft.start(space.inputs)
    for place in kept:
        move = draft.moves[place]
        lean.add(replace(move, sources=tuple(number[source] for source in move.sources)))
        lean.support.append(draft.support[place])
    lean.results = tuple(number[stream] for stream, _ in ends)
    lean.endings = tuple(plan for _, plan in ends)
    lean.read = True
    return lean


def _read(space: Space, draft: Draft, trail: Trail, output: int) -> tuple[int, Plan] | None:
    """A stream that holds what an output shall, and how it gets its form; the form is not to be had by repeating."""
    for stream, type_ in enumerate(draft.streams):
        if trail.reads(stream, output):
            for plan in space.plans(type_, space.outputs[output])[:1]:
                if not any(isinstance(op, Repeat) for op in plan.ops):
                    return stream, plan
    return None


def _live(draft: Draft, first: int, ends: Sequence[int]) -> set[int]:
    """The streams that these need, they among them."""
    live = set(ends)
    for place in reversed(range(len(draft.moves))):
        if first + place in live:
            live.update(draft.moves[place].sources)
    return live
