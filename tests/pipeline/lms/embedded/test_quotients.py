"""Dims that a task divides are read as products, and written as quotients again."""

from __future__ import annotations

import pytest
import sympy

from pipeline.lms.embedded.quotients import divided
from pipeline.lms.embedded.strong.strong_proposer import Effort, learned_for, propose
from pipeline.lms.embedded.task_view import TaskView
from step_runtime import verify
from step_runtime.primitives import Promote, Repeat, Reshape
from step_runtime.tasks.reader import loads_task

POOLED = """
inputs:
- {name: x, dtype: fp32, dims: [H, B], data_gen: torch.randn}
fns:
- name: Largest
  apply: return [torch.maximum(state[0], input[0])]
  init: [-inf]
  input_dtype: fp32
  output_dtype: fp32
  func_name: fn_largest
outputs:
- name: O
  dtype: fp32
  dims: [H/2, B]
  data_transform: "input_data['x'].view(B_value, H_value // 2, 2).amax(-1)"
sizes: {H: [6, 8], B: [3, 2]}
"""
"""Pairs of neighbours are pooled."""
CHUNKED = """
inputs:
- {name: x, dtype: fp32, dims: [T, B], data_gen: torch.randn}
fns:
- name: Turn
  apply: return [input[0].flip(0)]
  input_dtype: Buffer(fp32, [S])
  output_dtype: Buffer(fp32, [S])
  func_name: fn_turn
outputs:
- name: O
  dtype: fp32
  dims: [T, B]
  data_transform: "input_data['x'].view(B_value, T_value // S_value, S_value).flip(-1).flatten(1)"
sizes: {T: [8, 15], S: [4, 3], B: [2, 5]}
"""
"""Each chunk is turned around; only the function has the chunks' dim."""


@pytest.mark.parametrize("text", [POOLED, CHUNKED])
def test_dims_are_split_and_written_as_quotients(text: str) -> None:
    """A sample finds the right program, in which only dims of the task as it is written occur."""
    task = loads_task(text)
    view = TaskView(task)
    answers = [propose(view, learned_for(view, ((), ())), seed, 0.7, Effort()) for seed in range(4)]
    right = [answer for answer in answers if answer and verify(task, answer).passed]
    assert right and all("Reshape" in answer and "_parts" not in answer for answer in right)


def test_a_dim_is_a_product_with_what_divides_it() -> None:
    """Its other factor has the sizes of the quotient, and all dims of the task as it is written keep theirs."""
    task = loads_task(POOLED)
    own = divided(task)
    parts = sympy.Symbol("H_parts")
    assert own.wholes == {"H": 2 * parts} and own.task.input_types[0].shape[0] == 2 * parts
    assert own.task.output_types[0].shape[0] == parts
    assert [(sizes["H"], sizes["H_parts"]) for sizes in own.task.size_sets()] == [(6, 3), (8, 4)]
    assert own.op(Repeat(parts)) == Repeat(sympy.Symbol("H") / 2) and own.op(Promote(1)) == Promote(1)
    assert own.op(Reshape((0,), parts)) == Reshape((0,), sympy.Symbol("H") / 2)


def test_several_quotients_of_a_dim_have_a_common_one() -> None:
    """The least common multiple divides it."""
    text = POOLED.replace("dims: [H/2, B]", "dims: [H/2, H/3]").replace("H: [6, 8]", "H: [6, 12]")
    assert divided(loads_task(text)).wholes == {"H": 6 * sympy.Symbol("H_parts")}


def test_what_divides_a_dim_is_not_divided_itself() -> None:
    """Of two such dims, the one that a number divides is read as a product."""
    text = POOLED.replace("dims: [H/2, B]", "dims: [H/B, B/2]").replace("B: [3, 2]", "B: [2, 4]")
    assert divided(loads_task(text)).wholes == {"B": 2 * sympy.Symbol("B_parts")}


def test_chunks_are_those_that_a_function_takes() -> None:
    """They divide the dim of an input at all sizes; where they do not, or the inputs have them, nothing changes."""
    assert divided(loads_task(CHUNKED)).wholes == {"T": sympy.Symbol("S") * sympy.Symbol("T_parts")}
    for change in (("T: [8, 15]", "T: [8, 16]"), ("dims: [T, B]", "dims: [T, S]")):
        task = loads_task(CHUNKED.replace(*change))
        assert divided(task).task is task and not divided(task).quotients


def test_a_task_that_divides_nothing_is_read_as_it_is() -> None:
    """It is the same object, and programs are too."""
    task = loads_task(POOLED.replace("H/2", "H"))
    assert divided(task).task is task
