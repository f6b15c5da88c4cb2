"""The model of actions: what it reads in a solution, and what it makes likelier."""

from __future__ import annotations

from pipeline.lms.embedded.kinds import Context
from pipeline.lms.embedded.prompt.parsing import as_graph
from pipeline.lms.embedded.small.action_model import INPUT, actions_of
from pipeline.lms.embedded.small.small_proposer import action_model_of
from tests.support.benchmark_tasks import EXAMPLES, oracle


def test_a_routing_is_read_as_one_step_with_its_data_and_index() -> None:
    """From Partition to Merge, whatever the branches apply, the action takes what is partitioned, and the index."""
    found = as_graph(oracle("expert/1"))
    assert found is not None
    program, types, scope = found
    actions = list(actions_of(program, types, Context.of(scope.outputs, frozenset())))
    assert [action.kind[0] for action in actions][-1] == "Route"
    assert INPUT in actions[-1].sources


def test_what_follows_in_demonstrations_is_likelier() -> None:
    """A demonstration raises the weight of the very actions it shows."""
    shown = oracle("norm/2")
    found = as_graph(shown)
    assert found is not None
    program, types, scope = found
    actions = list(actions_of(program, types, Context.of(scope.outputs, frozenset())))
    counts = dict.fromkeys(EXAMPLES, 1.0)
    plain, taught = (
        sum(action_model_of(seen).weight(action) for action in actions) for seen in (counts, counts | {shown: 4.0})
    )
    assert taught > plain
