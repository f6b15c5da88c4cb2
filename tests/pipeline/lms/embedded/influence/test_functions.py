"""Functions are read once for each set of constants among their operands."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.lms.embedded.influence.arrays import Unread
from pipeline.lms.embedded.influence.functions import Flat, Functions, Work, shapes_of
from pipeline.lms.embedded.influence.reader import ArrayReader
from step_runtime.base.types import parse_dtype
from step_runtime.tasks.reader import loads_task

TASK = loads_task(
    """
inputs:
- {name: x, dtype: fp32, dims: [M], data_gen: torch.randn}
fns:
- {name: Mean, apply: "return [state[0] + input[0] * input[1], state[1] + input[1]]", init: [0, 0],
   input_dtype: [fp32, fp32], output_dtype: [fp32, fp32], func_name: fn_mean}
- {name: Mask, apply: "return [input[0] * (input[1] > 1)]", input_dtype: [fp32, fp32], output_dtype: fp32,
   func_name: fn_mask}
- {name: Turn, apply: "return [input[0].T @ weird(input[0])]", input_dtype: 'Buffer(fp32, [2, 3])',
   output_dtype: 'Buffer(fp32, [2, 2])', func_name: fn_turn}
- {name: Wide, apply: "return [input[0].sum(0)]", input_dtype: 'Buffer(fp32, [9, 9])',
   output_dtype: 'Buffer(fp32, [9])', func_name: fn_wide}
outputs:
- {name: O, dtype: fp32, dims: [M], data_transform: "input_data['x']"}
"""
)
FUNCTIONS = Functions(TASK, ArrayReader({}, {}), {}, {"M": 2})
NOT_KNOWN = np.full((3, 2), np.nan)
PAIRS = Flat(np.array([[1, 8], [2, 16], [4, 32]], np.uint64), NOT_KNOWN)


def test_components_are_followed_apart() -> None:
    """A fold whose states gain the same in each step takes no loop."""
    assert FUNCTIONS.steady("fn_mean")
    scanned = FUNCTIONS.folded("fn_mean", PAIRS, 3, Work(), scan=True)
    assert scanned.sources.tolist() == [[9, 8], [27, 24], [63, 56]]
    assert FUNCTIONS.folded("fn_mean", PAIRS, 3, Work(), scan=False).sources.tolist() == [[63, 56]]


def test_constants_among_operands_decide() -> None:
    """Each element of a stream has its own."""
    operands = Flat(np.array([[1, 0], [2, 0], [4, 32]], np.uint64), np.array([[np.nan, 0], [np.nan, 2], [np.nan] * 2]))
    assert FUNCTIONS.mapped("fn_mask", operands).sources.tolist() == [[0], [2], [36]]


def test_many_elements_are_numbered_without_end() -> None:
    """Beyond 63, too."""
    operands = Flat(np.left_shift(np.uint64(1), np.arange(81, dtype=np.uint64) % 9)[None], np.full((1, 81), np.nan))
    assert FUNCTIONS.mapped("fn_wide", operands).sources.tolist() == [[1 << place for place in range(9)]]


def test_a_function_that_is_not_understood_stays_unread() -> None:
    """Also when it is met again."""
    for _ in range(2):
        with pytest.raises(Unread):
            FUNCTIONS.mapped("fn_turn", Flat(np.ones((1, 6), np.uint64), np.full((1, 6), np.nan)))


def test_layouts_are_those_of_pytorch() -> None:
    """Innermost first in a type, last in a tensor."""
    assert shapes_of(parse_dtype(["Buffer(fp32, [2, 3])", "fp32"], {}), {}) == ((3, 2), ())
