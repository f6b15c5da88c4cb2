"""Drafts are compared with the reference by where their elements come from."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.draft import Draft, Move
from pipeline.lms.embedded.influence.streams import UNREAD
from pipeline.lms.embedded.step_limit import StepLimit, StepsExhausted
from pipeline.lms.embedded.strong.dim_guide import DimGuide
from pipeline.lms.embedded.task_view import TaskView
from pipeline.lms.embedded.types.coercions import Coercion
from pipeline.lms.embedded.types.type_table import FoldSpec
from step_runtime.primitives import Repeat
from step_runtime.tasks.reader import loads_task

VIEW = TaskView(
    loads_task(
        """
inputs:
- {name: x, dtype: fp32, dims: [M, N], data_gen: torch.randn}
fns:
- {name: Add, apply: "return [state[0] + input[0]]", init: [0], input_dtype: fp32, output_dtype: fp32,
   func_name: fn_add}
outputs:
- {name: O, dtype: fp32, dims: [M, N], data_transform: "input_data['x'].cumsum(-1)"}
"""
    )
)
(ADD,) = VIEW.fns
(X,) = VIEW.table.inputs
M, N = VIEW.table.types[X].shape
FOLDED = VIEW.table.intern(VIEW.table.types[X].__class__(ADD.output, (N,)))
AS_IS = Coercion((), 0.0)


def drafted(scan: bool) -> Draft:
    """The running sum, or the whole sum at each place."""
    draft = Draft.start(VIEW.table.inputs)
    draft.add(Move((ADD,), (0,), (AS_IS,), X if scan else FOLDED, FoldSpec(scan, 1, (M,), False)))
    draft.results, draft.output_coercions = (1,), (AS_IS if scan else Coercion((Repeat(M),), 1.0),)
    draft.read = True
    return draft


def guide(steps: int = 10**6) -> DimGuide:
    return DimGuide(VIEW.influence, StepLimit(steps))


def test_a_draft_that_sums_everywhere_over_all_is_not_the_running_sum() -> None:
    """Though its operations are the same, it is less similar, and not what the reference computes."""
    right, wrong = drafted(True), drafted(False)
    assert guide().compared(right, 1.0) == 1.0 == right.agreement and right.read
    assert guide().compared(wrong, 1.0) < 0.9 and wrong.agreement < 0.9 and not wrong.read


def test_a_stream_fits_what_may_become_an_output() -> None:
    """Only the running sum is one."""
    moves = drafted(True).moves[0], drafted(False).moves[0]
    running, whole = (guide().moved(move, guide().inputs) for move in moves)
    assert guide().reaches(running, AS_IS, 0) and not guide().reaches(whole, Coercion((Repeat(M),), 1.0), 0)
    assert guide().fit(running, VIEW.table.types[X]) == 1.0 > guide().fit(whole, VIEW.table.types[FOLDED])


def test_a_move_that_a_primitive_rejects_is_unread() -> None:
    """It agrees with everything; lowering drops it."""
    assert guide().moved(Move((ADD,), (0,), (AS_IS,), X), guide().inputs) == UNREAD


def test_a_draft_with_the_formulas_of_the_reference_computes_it() -> None:
    """To compare them in other worlds takes no steps: their streams have other numbers in each process."""
    draft, guided = drafted(True), guide()
    assert guided.compared(draft, 0.5) == 1.0 and draft.computes
    used, again = guided._steps.used, guide()
    again._ends_of(drafted(True))
    assert used == again._steps.used
    wrong = drafted(False)
    assert guide().compared(wrong, 0.5) < 1.0 and not wrong.computes


def test_following_costs_steps() -> None:
    """The same whatever was followed before."""
    with pytest.raises(StepsExhausted):
        guide(10).compared(drafted(True), 1.0)
