"""Functions are mostly applied first in the order in which they are listed."""

from __future__ import annotations

from pipeline.lms.embedded.operands import Operands
from pipeline.lms.embedded.strong.list_order import ListOrder
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.tasks.reader import loads_task

FUNCTION = "{name: F%d, apply: 'return [input[0]]', input_dtype: fp32, output_dtype: fp32, func_name: fn_%d}"
VIEW = TaskView(
    loads_task(
        f"""
inputs:
- {{name: x, dtype: fp32, dims: [M], data_gen: torch.randn}}
- {{name: y, dtype: fp32, dims: [M], data_gen: torch.randn}}
fns: [{", ".join(FUNCTION % (number, number) for number in range(4))}]
outputs:
- {{name: O, dtype: fp32, dims: [M], data_transform: ["input_data['x']"]}}
"""
    )
)
ORDER = ListOrder(VIEW.fns, len(VIEW.table.inputs))
ALL = [1] * len(VIEW.fns)


def test_functions_that_are_left_out_count() -> None:
    """Those behind the last one that is applied do not."""
    assert ORDER.skipped(ALL) == 0 == ORDER.skipped([1, *[0] * (len(VIEW.fns) - 1)])
    assert ORDER.skipped([0, *ALL[1:]]) < 0


def test_a_function_far_behind_those_that_are_applied_is_premature() -> None:
    """The first ones never are, nor is any once all are applied."""
    nothing = [0] * len(VIEW.fns)
    callees = {callee.fn: callee for callee in VIEW.callees}
    assert not any(ORDER.premature(callees[fn], nothing) for fn in VIEW.fns[:2])
    assert all(ORDER.premature(callees[fn], nothing) for fn in VIEW.fns[2:])
    assert not any(ORDER.premature(callee, ALL) for callee in VIEW.callees)


def test_operands_follow_the_list() -> None:
    """What the function before gives is likelier than what one behind gives, and inputs in order than turned."""
    callee = next(callee for callee in VIEW.callees if callee.fn is VIEW.fns[1])
    made = Operands((9,), (1,))
    assert ORDER.taking(callee, made, [[VIEW.fns[0]]]) > ORDER.taking(callee, made, [[VIEW.fns[-1]]])
    given, turned = (ORDER.taking(callee, Operands(sources, (1, 1)), [[], []]) for sources in ((0, 1), (1, 0)))
    assert given > turned
