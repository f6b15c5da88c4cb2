"""Operands are found component by component among the streams of one draft."""

from __future__ import annotations

from pipeline.lms.embedded.draft import Move
from pipeline.lms.embedded.operands import Callee, Operands
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.dim_guide import DimGuide
from pipeline.lms.embedded.strong.operand_beam import OperandBeam
from pipeline.lms.embedded.strong.outlook import Outlook
from pipeline.lms.embedded.strong.search_style import SearchStyle
from pipeline.lms.embedded.strong.stream_pool import StreamPool
from pipeline.lms.embedded.task_view import TaskView
from pipeline.lms.embedded.types.coercions import Coercion
from step_runtime.base.types import StreamType
from step_runtime.tasks.reader import loads_task
from tests.support.beams import VIEW

DECAY, FIRST = VIEW.callees


def beam() -> tuple[OperandBeam, StreamPool]:
    steps = StepLimit(10**6)
    pool = StreamPool(VIEW.table, VIEW.dependences, DimGuide(VIEW.influence, steps), steps, 1.0)
    return OperandBeam(VIEW, pool, Outlook(VIEW, VIEW.callees), steps, SearchStyle()), pool


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


MODULATED = """
inputs:
- {name: x, dtype: fp32, dims: [M, N], data_gen: torch.randn}
- {name: y, dtype: fp32, dims: [M, N], data_gen: torch.randn}
- {name: z, dtype: fp32, dims: [M, N], data_gen: torch.randn}
- {name: c, dtype: fp32, dims: [N], data_gen: torch.randn}
fns:
- name: Condition
  apply: 'return [input[0] + 1, 2 * input[0], -input[0]]'
  input_dtype: fp32
  output_dtype: [fp32, fp32, fp32]
  func_name: fn_condition
- name: Residual
  apply: 'return [input[0] + input[1] * input[4] + input[2] * input[3]]'
  input_dtype: [fp32, fp32, fp32, fp32, fp32]
  output_dtype: fp32
  func_name: fn_residual
outputs: [{name: S0, dtype: fp32, dims: [M, N], data_transform: unreadable()}]
"""


def test_choices_are_compared_with_those_that_serve_as_many_components() -> None:
    """Streams with a tuple serve more than as many others, which cost less until they have served that much."""
    view, steps = TaskView(loads_task(MODULATED)), StepLimit(10**6)
    pool = StreamPool(view.table, view.dependences, DimGuide(view.influence, steps), steps, 1.0)
    operands = OperandBeam(view, pool, Outlook(view, view.callees), steps, SearchStyle())
    condition, residual = view.callees
    triple = view.table.intern(StreamType(condition.fn.output, view.table.types[view.table.inputs[3]].shape))
    made = pool.add(Move((condition.fn,), (3,), (Coercion((), 0.0),), triple), 0.0)
    found = [each.sources for _, each in operands.best(residual, (0, 1, 2, 3, made), {3})]
    assert {(0, 1, made), (1, 0, made)} <= set(found)
