"""Of equal streams made bottom-up, one is kept; what takes too many at a time comes last."""

from itertools import combinations

import pytest
import torch

from pipeline.synthesis import SearchBudget
from pipeline.synthesis.bidirectional_search import BidirectionalSearch
from pipeline.synthesis.bottom_up import Block
from pipeline.synthesis.phases import RoundLimits
from pipeline.synthesis.rules import RuleTable
from pipeline.synthesis.search_round import SearchRound
from pipeline.synthesis.top_down import InvertibleOperands
from pipeline.synthesis.value_blocks import close
from step_runtime.execution.invocation import default_dtype
from tests.support.small_tasks import of_scalars


def test_of_equal_streams_one_is_kept() -> None:
    """Whatever was made: no two streams of one type agree in value, but for inputs."""
    fns = {
        "square": ("input[0] ** 2", 1),
        "power": ("input[0] * input[0]", 1),
        "abs": ("input[0].abs()", 1),
        "plus": ("input[0] + input[1]", 2),
        "add": ("state[0] + input[0]", 0),
    }
    unsolvable = of_scalars(fns, "torch.sin(input_data['E0'])")
    with default_dtype(torch.float64):
        search = BidirectionalSearch(unsolvable, SearchBudget(seconds=600, candidates=1_000))
        assert search.run().reason == "candidates"
    assert search._turn is not None
    for buckets in search._turn.bottom_up.buckets.values():
        values = torch.cat([bucket.values for bucket in buckets.values()]) if buckets else torch.zeros(0, 1)
        for row, other in list(combinations(range(min(len(values), 60)), 2)):
            assert not bool(close(values[row : row + 1], values[other : other + 1]))


@pytest.mark.parametrize(("together", "costs"), [(1, {2, 4}), (0, {2})])
def test_of_what_is_put_off_nothing_is_made(together: int, costs: set[int]) -> None:
    """It is tried all the same, at the end of the round."""
    given = of_scalars({"sine": ("torch.sin(input[0])", 1), "double": ("2 * input[0]", 1)}, "input_data['E0'] ** 3")
    made: list[Block] = []
    with default_dtype(torch.float64):
        search = BidirectionalSearch(given, SearchBudget(seconds=600))
        executor, limits = search._executor, RoundLimits(5, 100, choices=False, free=True, together=together)
        invertible = InvertibleOperands(executor)
        table, seeds, observation = RuleTable(executor.space), search._seeds, search._observation
        turn = SearchRound(executor, table, limits, invertible, seeds, observation, made.append)
        assert not list(turn.programs())
    assert {block.cost for block in made} == costs
