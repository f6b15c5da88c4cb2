"""The reference as it is read says which steps lead to what it computes."""

from __future__ import annotations

from pipeline.lms.embedded.draft import Draft
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.move_builder import MoveBuilder
from pipeline.lms.embedded.strong.reference_guide import ReferenceGuide
from pipeline.lms.embedded.strong.strong_proposer import learned_for
from pipeline.lms.embedded.task_view import TaskView
from tests.support.small_tasks import of_scalars

FNS = {"double": ("2 * input[0]", 1), "sine": ("torch.sin(input[0])", 1), "never": ("torch.exp(input[0])", 1)}
VIEW = TaskView(of_scalars(FNS, "torch.sin(input_data['E0'] * 2)"))


def guided() -> tuple[Draft, ReferenceGuide]:
    draft = Draft.start(VIEW.table.inputs)
    return draft, ReferenceGuide(VIEW, VIEW.interpretation, draft, VIEW.callees, [], StepLimit(10**6))


def advance(draft: Draft, guide: ReferenceGuide) -> str:
    """Makes the only open step."""
    (hint,) = guide.hints()
    edges = learned_for(VIEW, ((), ())).edge_model
    move = MoveBuilder(VIEW, edges, SeededChoice(0, 1e6), StepLimit(10**6), read=True).apply(
        draft, hint.callee, hint.operands, hint.scan
    )
    assert move is not None
    draft.add(move)
    guide.advance()
    return hint.callee.fn.label


def test_steps_are_those_of_the_reference_in_its_order() -> None:
    """A function that it never applies is not one."""
    draft, guide = guided()
    assert not guide.reads(0, 0)
    assert [advance(draft, guide), advance(draft, guide)] == ["fn_double", "fn_sine"]
    assert guide.reads(2, 0) and not guide.reads(1, 0)


def test_a_step_that_was_made_is_not_offered_again() -> None:
    """Nothing is left once the output is there."""
    draft, guide = guided()
    advance(draft, guide)
    assert [hint.callee.fn.label for hint in guide.hints()] == ["fn_sine"]
    advance(draft, guide)
    assert guide.hints() == []
