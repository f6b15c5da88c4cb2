"""A round starts from given streams, and ends early when it has reached landmarks."""

import torch

from pipeline.synthesis import SearchBudget
from pipeline.synthesis.bidirectional_search import BidirectionalSearch
from step_runtime.execution.invocation import default_dtype
from tests.support.small_tasks import of_scalars

FNS = {"double": ("2 * input[0]", 1), "sine": ("torch.sin(input[0])", 1), "plus": ("input[0] + input[1]", 2)}


def test_the_next_round_starts_from_the_landmarks_of_the_last() -> None:
    """The sine and its double are values of the reference; the round after them needs one function more."""
    given = of_scalars(FNS, "torch.sin(input_data['E0']) * 2 + input_data['E0']")
    with default_dtype(torch.float64):
        search = BidirectionalSearch(given, SearchBudget(candidates=10_000))
        outcome = search.run()
    assert outcome.impl is not None and "fn_sine" in outcome.impl
    assert [stream.cost for stream in search._seeds] == [0, 1, 1]
