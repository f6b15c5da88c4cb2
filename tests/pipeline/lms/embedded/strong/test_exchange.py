"""Operands that a function takes in any order are considered in one."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.dim_guide import DimGuide
from pipeline.lms.embedded.strong.exchange import partners
from pipeline.lms.embedded.strong.operand_beam import OperandBeam
from pipeline.lms.embedded.strong.outlook import Outlook
from pipeline.lms.embedded.strong.search_style import ANY
from pipeline.lms.embedded.strong.stream_pool import StreamPool
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.tasks.reader import loads_task

TASK = """
inputs:
- {{name: A, dtype: 'Buffer(fp32, [D, D])', dims: [N], data_gen: torch.randn}}
- {{name: B, dtype: 'Buffer(fp32, [D, D])', dims: [N], data_gen: torch.randn}}
fns:
- name: Both
  apply: |
    return [{apply}]
  input_dtype: ['Buffer(fp32, [D, D])', 'Buffer(fp32, [D, D])']
  output_dtype: Buffer(fp32, [D, D])
  func_name: fn_both
outputs:
- name: O
  dtype: Buffer(fp32, [D, D])
  dims: [N]
  data_transform:
  - input_data['A'] * input_data['B']
sizes: {{N: [3, 4], D: [2, 3]}}
"""


def view(apply: str) -> TaskView:
    return TaskView(loads_task(TASK.format(apply=apply), "task"))


@pytest.mark.parametrize(
    ("apply", "exchanges"),
    [
        ("input[0] * input[1]", True),
        ("(input[0] - input[1]) ** 2", True),
        ("torch.maximum(input[0], input[1])", True),
        ("input[0] - input[1]", False),
        ("0.9 * input[0] + 0.1 * input[1]", False),
        ("input[0] @ input[1]", False),
        ("input[0] * input[1].T", False),
        ("input[0].unknown(input[1])", False),
    ],
)
def test_formulas_and_positions_say_which_operands_change_places(apply: str, exchanges: bool) -> None:
    """A product of matrices has a formula that does not tell, and a weighted sum positions that do not."""
    task = view(apply)
    assert partners(task, task.callees[0]) == (-1, 0 if exchanges else -1)


@pytest.mark.parametrize(("apply", "orders"), [("input[0] * input[1]", 1), ("input[0] - input[1]", 2)])
def test_such_operands_are_considered_in_one_order(apply: str, orders: int) -> None:
    """The other order makes the same program."""
    task = view(apply)
    steps = StepLimit(10**6)
    shared = StreamPool(task.table, task.dependences, DimGuide(task.influence, steps), steps, 1.0)
    beam = OperandBeam(task, shared, Outlook(task, task.callees), steps, ANY)
    found = [operands.sources for _, operands in beam.best(task.callees[0], (0, 1), ())]
    assert (0, 1) in found and sum(sorted(sources) == [0, 1] for sources in found) == orders


def test_a_selection_takes_its_streams_in_order() -> None:
    """Its index picks one of them by its place, whatever function merges them."""
    task = view("input[0] * input[1]")
    (callee,) = task.callees
    callee.routed = True
    assert partners(task, callee) == (-1, -1)
