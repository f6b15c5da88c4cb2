"""Advice names what the drafts lack, and says what would help."""

from __future__ import annotations

from optimizers import Attempt
from pipeline.reporting.advice import advise
from step_runtime.tasks.reader import loads_task
from tests.support.paths import PROJECT
from tests.support.small_tasks import of_scalars

TASK = of_scalars({"double": ("2 * input[0]", 1), "square": ("input[0] ** 2", 1)}, "input_data['E0'] ** 2 * 2")


def wrong(impl: str, stage: str = "value") -> Attempt:
    feedback = {"stage": stage, "codes": [stage], "feedback": f"t:1:1: {stage}: it differs"}
    return Attempt(0, 0, "t", 0.7, 0, 0, outputs={"impl": impl}, score=0.0, feedback=feedback)


def test_functions_and_outputs_that_no_draft_reaches_are_named() -> None:
    found = advise(TASK, [wrong("return step.Map(fn=fn_double).apply(E0)")])
    assert (found.unused_functions, found.unreached_outputs) == (("fn_square",), ())
    assert found.nearest is not None and found.nearest.stage == "value"
    text = found.render()
    assert "no draft uses: fn_square" in text and "t:1:1: value: it differs" in text
    assert advise(TASK, [wrong("return step.Bufferize(a=1).apply(E0)", "shape")]).unreached_outputs == ("S0",)


def test_more_samples_are_advised_only_while_answers_differ() -> None:
    same = advise(TASK, [wrong("return step.Map(fn=fn_double).apply(E0)")] * 8)
    assert any("will not help" in hint for hint in same.hints)
    programs = [f"return step.Repeat(n={n}).apply(E0)" for n in range(1, 9)]
    assert any("--samples may help" in hint for hint in advise(TASK, map(wrong, programs)).hints)


def test_an_operand_that_nothing_gives_asks_for_a_helper_function() -> None:
    text = (PROJECT / "data/tasks/index/0.yaml").read_text()
    task = loads_task(text, "index/0")
    fn = task.fns[0].model_copy(update={"input_dtype": "Multihot(fp32, 7)"})
    found = advise(task.model_copy(update={"fns": [fn, *task.fns[1:]]}), [])
    assert any("add a helper function that returns it" in hint for hint in found.hints)
    assert any("--max-minutes" in hint for hint in found.hints)
    assert not found.unused_functions and not found.unreached_outputs, "there is no draft to say it of"


def test_the_first_line_of_the_reference_that_nothing_computes_is_named() -> None:
    found = advise(TASK, [wrong("return step.Map(fn=fn_double).apply(E0)")], ["output S0, line 1: a", "line 2: b"])
    (hint,) = [hint for hint in found.hints if "`output S0, line 1: a`" in hint]
    assert "nor of 1 further line)" in hint


def test_a_search_that_made_every_line_asks_for_time_or_smaller_steps() -> None:
    """Without a search, nothing is said of lines."""
    attempts = [wrong("return step.Map(fn=fn_double).apply(E0)")]
    assert any("every line of the reference, but not the outputs" in hint for hint in advise(TASK, attempts, ()).hints)
    assert not any("line" in hint for hint in advise(TASK, attempts).hints)


def test_what_to_do_comes_first() -> None:
    lines = advise(TASK, [wrong("return step.Map(fn=fn_double).apply(E0)")]).lines()
    assert lines[0].startswith("  to do: ") and lines[-1].startswith("  functions that no draft uses")
