"""Edits cover the kinds of mistake that drafts hold, and each makes another plan."""

from pipeline.synthesis.edits import Editor
from pipeline.synthesis.plans import plan_of
from step_runtime.language.parser import parse
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from tests.support.paths import PROJECT


def test_every_edit_changes_the_plan_and_says_what() -> None:
    """Functions, operands, folds, shapes, outputs, and steps more and less."""
    task = loads_task((PROJECT / "data/tasks/attn/2.yaml").read_text(), "attn/2")
    scope = static_scope(task)
    plan = plan_of(parse((PROJECT / "data/oracles/attn/2.step").read_text(), scope)[0], scope)
    edits = list(Editor(scope).edits(plan))
    assert all(edit.make() != plan and edit.cost > 0 for edit in edits)
    words = " | ".join(edit.what for edit in edits)
    for kind in ("exchanged", "from", "Accum of", "over 2 dims", "at shape", "output 1 from", "left out"):
        assert kind in words, kind


def test_a_function_that_no_step_uses_comes_before_one_that_is_used() -> None:
    task = loads_task((PROJECT / "data/tasks/norm/0.yaml").read_text(), "norm/0")
    scope = static_scope(task)
    plan = plan_of(parse("E1 = step.Map(fn=fn_square).apply(E0)\nreturn E1", scope)[0], scope)
    costs = {edit.what: edit.cost for edit in Editor(scope).edits(plan)}
    assert costs["fn_sqrt for fn_square"] < 1
    assert costs["fn_sqrt inserted before fn_square"] < costs["fn_square inserted before fn_square"]
