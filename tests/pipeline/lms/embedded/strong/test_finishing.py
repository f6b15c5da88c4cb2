"""The ends of a beam search: outputs are bound, and compared with the reference."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.strong.levels import State
from tests.support.beams import search_of

TASK = """
inputs:
- {name: x, dtype: fp32, dims: [N], data_gen: torch.randn}
fns:
- {name: Exp, apply: "return [torch.exp(input[0])]", input_dtype: fp32, output_dtype: fp32, func_name: fn_exp}
- {name: Other, apply: "return [torch.cos(input[0])]", input_dtype: fp32, output_dtype: fp32, func_name: fn_other}
outputs:
- {name: O, dtype: fp32, dims: [N], data_transform: ["torch.exp(input_data['x'])"]}
sizes: {N: 3}
"""
SORTED = """
inputs:
- {name: x, dtype: fp32, dims: [N], data_gen: torch.randn}
fns:
- {name: Most, apply: "return [torch.where(input[0] > state[0], input[0], state[0])]", init: [-inf],
   input_dtype: fp32, output_dtype: fp32, func_name: fn_most}
outputs:
- {name: O, dtype: fp32, dims: [1], data_transform: ["input_data['x'].sort().values[-1:]"]}
sizes: {N: 3}
"""


def test_a_draft_that_computes_the_outputs_need_not_apply_all_functions() -> None:
    """A function that the operator does not need is left out."""
    search = search_of(TASK)
    search.run()
    end = search.finished[-1]
    assert end.computes and [fn.label for move in end.moves for fn in move.functions()] == ["fn_exp"]


@pytest.mark.parametrize("partly", [True, False])
def test_a_draft_without_the_outputs_is_none(partly: bool) -> None:
    """As that of the inputs alone; nor is it the outputs' by their formulas."""
    search = search_of(TASK)
    start = State(tuple(range(search._pool.first)), frozenset(), (0, 0), 0.0)
    end = search._finishing.draft_of(start, partly=partly)
    assert end is None or not end.computes
    assert not search._pool.ended(start.streams)


def test_what_is_equal_only_where_residues_are_in_order_is_recognized() -> None:
    """A running choice of the larger one, and a sort."""
    search = search_of(SORTED)
    search.run()
    assert search.finished[-1].computes
