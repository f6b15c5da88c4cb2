"""The guide follows a draft's dependences, and compares its results with the outputs."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.draft import Draft
from pipeline.lms.embedded.operands import Operands
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.step_limit import StepLimit, StepsExhausted
from pipeline.lms.embedded.strong.dependence_guide import DependenceGuide
from pipeline.lms.embedded.strong.edge_model import EdgeModel
from pipeline.lms.embedded.strong.move_builder import MoveBuilder
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.tasks.reader import loads_task
from tests.support.habitual_tasks import EXIT
from tests.support.paths import PROJECT

VIEW = TaskView(loads_task((PROJECT / "data/tasks-modern/rwkv_wkv.yaml").read_text(), "task"))
WKV, FOURTH, GATE = VIEW.callees


def followed(*sources: tuple[int, ...]) -> tuple[Draft, DependenceGuide]:
    """A draft that applies the three functions in order to these streams, and its guide."""
    draft = Draft.start(VIEW.table.inputs)
    guide = DependenceGuide(VIEW.dependences, draft, StepLimit(10**6))
    builder = MoveBuilder(VIEW, EdgeModel(), SeededChoice(0, 9.0), StepLimit(10**6), read=True)
    for callee, streams in zip((WKV, FOURTH, GATE), sources, strict=True):
        counts = (4,) if callee is FOURTH else (1, 1)
        move = builder.apply(draft, callee, Operands(streams, counts), scan=True if callee is WKV else None)
        assert move is not None
        draft.add(move)
        guide.advance()
    draft.results = (len(draft.streams) - 1,)
    return draft, guide


def test_the_right_operands_are_the_most_similar() -> None:
    """R, K and V are of one type; only their dependences distinguish them."""
    right, wrong = followed((1, 2), (3,), (0, 4)), followed((0, 1), (3,), (2, 4))
    assert right[1].similarity(right[0]) > wrong[1].similarity(wrong[0]) + 0.2
    assert right[1].matches(5, 0) == right[1].similarity(right[0])


def test_an_operand_fits_where_the_reference_has_it() -> None:
    """The gate's first argument gets into an exponential, as R does and V does not."""
    _, guide = followed((1, 2), (3,), (0, 4))
    assert guide.place_fit(GATE, 0, 0) > guide.place_fit(GATE, 0, 2)
    assert guide.fit(WKV, None, Operands((1, 2), (1, 1))) > guide.fit(WKV, None, Operands((2, 1), (1, 1)))


def test_a_result_serves_what_can_take_it() -> None:
    """The state of the recurrence is no output and serves the one function that takes it."""
    draft, guide = followed((1, 2), (3,), (0, 4))
    assert guide.serves(draft.moves[0], [FOURTH], [0])
    assert not guide.serves(draft.moves[0], [], [])


def test_comparing_costs_steps() -> None:
    """The work is part of what a sample may do."""
    draft = Draft.start(VIEW.table.inputs)
    guide = DependenceGuide(VIEW.dependences, draft, StepLimit(10))
    with pytest.raises(StepsExhausted):
        guide.place_fit(GATE, 0, 0)


def test_a_selection_depends_on_its_streams_as_they_are() -> None:
    """One that lacks what both branches begin with is less like the reference."""
    view = TaskView(loads_task(EXIT))
    draft = Draft.start(view.table.inputs)
    guide = DependenceGuide(view.dependences, draft, StepLimit(10**6))
    builder = MoveBuilder(view, EdgeModel(), SeededChoice(0, 9.0), StepLimit(10**6), read=True)
    (selection,) = view.selections
    for place, source in enumerate((0, 2, 3)):
        draft.add(builder.apply(draft, view.callees[place], Operands((source,), (1,))))  # type: ignore[arg-type]
        guide.advance()
    for first in (2, 0):
        move = builder.route(draft, selection, Operands((first, 4, 1), (1, 1, 1)), selection.passing())
        assert move is not None and str(view.table.types[move.result]) == "fp32 [M, N]"
        draft.add(move)
        guide.advance()
    assert guide.matches(5, 0) > guide.matches(6, 0) + 0.1
