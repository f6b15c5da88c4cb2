"""Operands are found component by component among the streams of one draft."""

from __future__ import annotations

from pipeline.lms.embedded.draft import Move
from pipeline.lms.embedded.operands import Callee, Operands
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.dim_guide import DimGuide
from pipeline.lms.embedded.strong.operand_beam import OperandBeam
from pipeline.lms.embedded.strong.outlook import Outlook
from pipeline.lms.embedded.strong.stream_pool import StreamPool
from pipeline.lms.embedded.types.coercions import Coercion
from step_runtime.base.types import StreamType
from tests.support.beams import VIEW

DECAY, FIRST = VIEW.callees


def beam() -> tuple[OperandBeam, StreamPool]:
    steps = StepLimit(10**6)
    pool = StreamPool(VIEW.table, VIEW.dependences, DimGuide(VIEW.influence, steps), steps, 1.0)
    return OperandBeam(VIEW, pool, Outlook(VIEW, VIEW.callees), steps, 1.0), pool


def ranked(callee: Callee, used: set[int]) -> list[tuple[int, ...]]:
    return [operands.sources for _, operands in beam()[0].best(callee, (0, 1, 2), used)]


def test_streams_that_nothing_takes_come_first() -> None:
    """A stream that is taken already is a worse operand than one that is not."""
    fresh = ranked(DECAY, set())
    assert len(fresh) == len(set(fresh)) > 3
    taken = ranked(DECAY, {1})
    assert taken.index((0, 2)) < taken.index((0, 1))


def test_what_only_selects_takes_a_tuple_in_one_piece() -> None:
    """Zipping streams for a function that returns one of its arguments is useless."""
    operands, pool = beam()
    assert operands.best(FIRST, (0, 1, 2), set()) == []
    pair = VIEW.table.intern(StreamType(DECAY.fn.output, VIEW.table.types[VIEW.table.inputs[0]].shape))
    made = pool.add(Move((DECAY.fn,), (0, 1), (Coercion((), 0.0),) * 2, pair), 0.0)
    assert [found.sources for _, found in operands.best(FIRST, (0, 1, 2, made), set())] == [(made,)]


def test_streams_serve_in_order_or_not_at_all() -> None:
    """Too few and too many are no operands."""
    operands, _ = beam()
    assert operands.serving(DECAY, (0, 2)) == Operands((0, 2), (1, 1))
    assert operands.serving(DECAY, (0,)) is None and operands.serving(DECAY, (0, 1, 2)) is None
