"""Streams that serve a function, the likelier ones first."""

from __future__ import annotations

from pipeline.lms.embedded.draft import Draft, Move
from pipeline.lms.embedded.operands import Callee
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.strong.operand_ranking import OperandRanking
from pipeline.lms.embedded.task_view import TaskView
from tests.support.samples import general

VIEW = TaskView(general())


def callee(name: str) -> Callee:
    return next(callee for callee in VIEW.callees if callee.fn.label == name)


def test_chosen_streams_have_the_types_of_the_components() -> None:
    """At any sharpness; the index serves nothing here."""
    draft = Draft.start(VIEW.table.inputs)
    for seed in range(20):
        ranked = OperandRanking(VIEW, draft, read=False).choose(callee("fn_scale"), SeededChoice(seed, 0.1))
        assert ranked is not None
        chosen = ranked[0]
        assert chosen.counts == (1, 1)
        assert chosen.sources[0] in (0, 1, 3) and chosen.sources[1] in (0, 1, 3)


def test_a_stream_that_is_taken_already_is_chosen_less() -> None:
    """By this draft, or by the same function."""
    draft = Draft.start(VIEW.table.inputs)
    ranking = OperandRanking(VIEW, draft, read=False)
    before = ranking.readiness(callee("fn_square"))
    for stream in range(4):
        draft.uses[stream] += 1
    assert ranking.readiness(callee("fn_square")) < before


def test_new_streams_are_found_as_the_draft_grows() -> None:
    """The ranking follows its draft."""
    draft = Draft.start(VIEW.table.inputs[2:3])
    ranking = OperandRanking(VIEW, draft, read=False)
    assert ranking.choose(callee("fn_square"), SeededChoice(0, 1.0)) is None
    draft.add(Move((), (0,), (), VIEW.table.inputs[3]))
    ranked = ranking.choose(callee("fn_square"), SeededChoice(0, 1.0))
    assert ranked is not None and ranked[0].sources == (1,)
