"""A round starts from given streams, and ends early when it has reached landmarks."""

import torch

from pipeline.synthesis import SearchBudget
from pipeline.synthesis.bidirectional_search import BidirectionalSearch
from step_runtime.execution.invocation import default_dtype
from tests.support.small_tasks import of_scalars, task

FNS = {"double": ("2 * input[0]", 1), "sine": ("torch.sin(input[0])", 1), "plus": ("input[0] + input[1]", 2)}


def test_the_next_round_starts_from_the_landmarks_of_the_last() -> None:
    """The sine and its double are values of the reference; the round after them needs one function more."""
    given = of_scalars(FNS, "torch.sin(input_data['E0']) * 2 + input_data['E0']")
    with default_dtype(torch.float64):
        search = BidirectionalSearch(given, SearchBudget(candidates=10_000))
        outcome = search.run()
    assert outcome.impl is not None and "fn_sine" in outcome.impl
    assert [stream.cost for stream in search._seeds] == [0, 1, 1]


def test_inputs_in_another_order_are_started_from() -> None:
    """A fold from the end: a function that reverses is like structure, and both inputs that it reverses are given."""
    text = """
    inputs:
    - {name: E0, dtype: fp32, dims: [D, N], data_gen: torch.randn}
    - {name: E1, dtype: fp32, dims: [D, N], data_gen: binary}
    fns:
    - {name: Reverse, apply: "return [input[0].flip(0)]", input_dtype: "Buffer(fp32, [D])",
       output_dtype: "Buffer(fp32, [D])", func_name: fn_reverse}
    - {name: Decayed, apply: "return [state[0] * input[1] * 0.9 + input[0]]", init: [0], input_dtype: [fp32, fp32],
       output_dtype: fp32, func_name: fn_decayed}
    outputs:
    - name: S0
      dtype: fp32
      dims: [D, N]
      data_transform: |
        x, keep = input_data['E0'].clone(), input_data['E1']
        for t in range(D_value - 2, -1, -1):
            x[:, t] += 0.9 * keep[:, t] * x[:, t + 1]
        x
    sizes: {D: [5, 4], N: [3, 2]}
    """
    with default_dtype(torch.float64):
        search = BidirectionalSearch(task(text), SearchBudget(candidates=20_000))
        outcome = search.run()
        reversed_ = [stream.values[0].view(-1, 4).flip(1).flatten() for stream in search._observation.inputs]
    assert outcome.impl is not None and outcome.impl.count("fn_reverse") == 3
    assert all(any(torch.equal(value, stream.values[0]) for stream in search._seeds) for value in reversed_)


def test_a_single_element_is_repeated_along_any_dim() -> None:
    """The maximum over all numbers, taken from each."""
    text = """
    inputs:
    - {name: E0, dtype: fp32, dims: [D, N], data_gen: torch.randn}
    fns:
    - {name: Max, apply: "return [torch.maximum(state[0], input[0])]", init: [-inf], input_dtype: fp32,
       output_dtype: fp32, func_name: fn_max}
    - {name: Minus, apply: "return [input[0] - input[1]]", input_dtype: [fp32, fp32], output_dtype: fp32,
       func_name: fn_minus}
    outputs:
    - {name: S0, dtype: fp32, dims: [D, N], data_transform: "input_data['E0'] - input_data['E0'].max()"}
    """
    with default_dtype(torch.float64):
        assert BidirectionalSearch(task(text), SearchBudget(candidates=20_000)).run().impl is not None
