"""The splitter holds these: it chooses among the values given, and an answer that is no choice chooses none."""

import dspy
import pytest

from pipeline.agent.splitter import Splitter
from signatures import YAMLAdapter
from tests.support.scripted_answers import scripted, task

VALUES = ["n: fp32 [N], n = x.mean()", "gate: fp32 [N], gate = n.sigmoid()"]


@pytest.mark.parametrize(
    ("answer", "cuts"),
    [
        ('[[ ## cuts ## ]]\n["gate", "n", "other"]\n[[ ## completed ## ]]', ("n", "gate")),
        ("[[ ## cuts ## ]]\n[]\n[[ ## completed ## ]]", ()),
        ("I would split at the gate.", ()),
    ],
)
def test_the_names_chosen_are_those_of_values_in_their_order(answer: str, cuts: tuple[str, ...]) -> None:
    lm, engine = scripted(answer)
    with dspy.context(lm=lm, adapter=YAMLAdapter()):
        assert Splitter()(task=task(), values=VALUES).cuts == cuts
    assert all(value in engine.texts[0] for value in VALUES)
