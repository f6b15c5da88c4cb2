"""Backward slicing: drops the moves of a draft that its outputs do not need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipeline.lms.embedded.draft import Draft
from pipeline.lms.embedded.strong.reference_guide import ReferenceGuide
from pipeline.lms.embedded.types.coercions import Coercion
from pipeline.lms.embedded.types.type_table import TypeTable
from step_runtime.base.functions import Fn
from step_runtime.primitives import Repeat


def backward_slice(table: TypeTable, draft: Draft, guide: ReferenceGuide, needed: set[Fn]) -> Draft | None:
    """The part of a draft that leads to the outputs by the interpretation; None if there is none.

    It must use every input and every function that is `needed`.
    """
    found = [_read(table, draft, guide, output) for output in range(len(table.outputs))]
    ends = [end for end in found if end is not None]
    if len(ends) < len(found):
        return None
    lean = trimmed(table, draft, ends, needed)
    if lean is not None:
        lean.read = True
    return lean


def trimmed(
    table: TypeTable, draft: Draft, ends: Sequence[tuple[int, Coercion]], needed: set[Fn] | None
) -> Draft | None:
    """The part of a draft that leads to these streams as its outputs, with their coercions to the outputs' types.

    None if it lacks an input or one of the functions that are `needed`; with None, none is.
    """
    first = len(table.inputs)
    live = _live(draft, first, [stream for stream, _ in ends])
    kept = [place for place in range(len(draft.moves)) if first + place in live]
    used = {fn for place in kept for fn in draft.moves[place].functions()}
    if (needed is not None and used != needed) or not live.issuperset(range(first)):
        return None
    number = {old: new for new, old in enumerate([*range(first), *(first + place for place in kept)])}
    lean = Draft.start(table.inputs)
    for place in kept:
        move = draft.moves[place]
        lean.add(replace(move, sources=tuple(number[source] for source in move.sources)))
        lean.support.append(draft.support[place])
    lean.results = tuple(number[stream] for stream, _ in ends)
    lean.output_coercions = tuple(coercion for _, coercion in ends)
    return lean


def _read(table: TypeTable, draft: Draft, guide: ReferenceGuide, output: int) -> tuple[int, Coercion] | None:
    """A stream with the content of an output, and its coercion to the output's type, without repeating."""
    for stream, type_ in enumerate(draft.streams):
        if guide.reads(stream, output):
            for coercion in table.coercions(type_, table.outputs[output])[:1]:
                if not any(isinstance(op, Repeat) for op in coercion.ops):
                    return stream, coercion
    return None


def _live(draft: Draft, first: int, ends: Sequence[int]) -> set[int]:
    """The streams that these depend on, including themselves."""
    live = set(ends)
    for place in reversed(range(len(draft.moves))):
        if first + place in live:
            live.update(draft.moves[place].sources)
    return live
