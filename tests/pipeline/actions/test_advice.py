"""Advice names what the drafts lack, and says what would help."""

from dataclasses import replace

import pytest

from optimizers import Attempt, TokenCount
from pipeline.actions.advice import advise
from pipeline.base.choices import ProposerKind
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


def hints_of(inputs: dict[str, str], output: str, reference: str, fns: str = "[]") -> str:
    """The advice on a task that a search has not solved although it made every line."""
    streams = "".join(f"- {{name: {name}, {text}}}\n" for name, text in inputs.items())
    lines = "".join(f"    {line}\n" for line in reference.splitlines())
    task = f"inputs:\n{streams}outputs:\n- name: Y\n  {output}\n  data_transform:\n  - |\n{lines}fns: {fns}\n"
    return "\n".join(advise(loads_task(task, "t"), [], ()).hints)


NEGATE = "[{name: F, apply: 'return [-input[0]]', input_dtype: fp32, output_dtype: fp32, func_name: fn_f}]"
TRANSPOSE = (
    "[{name: T, apply: 'return [input[0].T]', input_dtype: 'Buffer(fp32, [N, M])',"
    " output_dtype: 'Buffer(fp32, [M, N])', func_name: fn_t}]"
)
MINUTES = "but not the outputs: raise --max-minutes"
X = {"X": "dtype: fp32, dims: [N, M], data_gen: torch.randn"}


def test_an_input_that_no_function_takes_is_named() -> None:
    """Routing primitives may still take a Multihot, so no more is said of it than that nothing computes with it."""
    mask = X | {"B": "dtype: bool, dims: [N, M], data_gen: binary"}
    found = hints_of(mask, "dtype: fp32\n  dims: [N, M]", "input_data['X'] * input_data['B']", NEGATE)
    assert "no function takes input B, of bool: add one that does" in found and "input X" not in found


def test_a_missing_permutation_asks_for_a_function_that_transposes() -> None:
    """Time brings no search there, as no primitive exchanges dims."""
    found = hints_of(X, "dtype: fp32\n  dims: [M, N]", "-input_data['X'].T", NEGATE)
    assert "output Y has M inside of N" in found and "from [N, M] to [M, N]" in found and MINUTES not in found
    found = hints_of(X, "dtype: fp32\n  dims: [M, N]", "-input_data['X'].T", TRANSPOSE)
    assert "inside of" not in found and MINUTES in found


@pytest.mark.parametrize(
    ("head", "advice"),
    [("for t in range(N_value)", "loops along a dim (`for t in range(N_value):`)"),
     ("for _ in range(20)", "repeats steps (`for _ in range(20):`)"),
     ("while x.sum() < 9", "repeats steps (`while x.sum() < 9:`)")],
)  # fmt: skip
def test_a_reference_that_loops_asks_for_a_function_of_its_rounds(head: str, advice: str) -> None:
    """More time writes no loop out."""
    found = hints_of(X, "dtype: fp32\n  dims: [N, M]", f"x = input_data['X']\n{head}:\n    x = x + 1\nx", NEGATE)
    assert advice in found and MINUTES not in found


def test_more_time_is_advised_only_where_a_search_has_left_something() -> None:
    """A search that has tried all within reach finds no more in more time."""
    attempts = [wrong("return step.Map(fn=fn_double).apply(E0)")]
    found = "\n".join(advise(TASK, attempts, (), exhausted=True).hints)
    assert "has tried all within reach" in found and "max-minutes" not in found


def test_a_search_that_made_every_line_asks_for_time_or_smaller_steps() -> None:
    """Without a search, nothing is said of lines."""
    attempts = [wrong("return step.Map(fn=fn_double).apply(E0)")]
    assert any("every line of the reference, but not the outputs" in hint for hint in advise(TASK, attempts, ()).hints)
    assert not any("line" in hint for hint in advise(TASK, attempts).hints)


def test_what_to_do_comes_first() -> None:
    lines = advise(TASK, [wrong("return step.Map(fn=fn_double).apply(E0)")]).lines()
    assert lines[0].startswith("  to do: ") and lines[-1].startswith("  functions that no draft uses")


def hints(stages: list[str], proposer: ProposerKind, truncated: int = 0) -> str:
    """What an LM's wrong answers are told, failing at these stages, so many of them cut off."""
    tokens = {"proposer.predict": TokenCount(calls=1, truncated=1)}
    attempts = [wrong(f"return step.Repeat(n={n}).apply(E0)", stage) for n, stage in enumerate(stages, start=1)]
    attempts = [replace(each, tokens=tokens if n < truncated else {}) for n, each in enumerate(attempts)]
    return "\n".join(advise(TASK, attempts, proposer=proposer).hints)


def test_an_lm_that_writes_no_programs_is_told_how_to_be_helped() -> None:
    """By how its answers fail; nothing is said of drafts, nor of what the task lacks."""
    text = hints(["parse"] * 5 + ["type", "value"], "predict", truncated=3)
    assert "of 7 wrong answers of the LM: 5 are no program, 1 break a rule of types, 1 compute other values" in text
    assert "3 were cut off at --max-tokens" in text and "`--proposer typed`" in text
    assert "draft" not in text and "recognized" not in text and "helper" not in text


def test_an_lm_that_writes_wrong_programs_needs_to_learn() -> None:
    """Well-typed answers are no matter of syntax, so that another proposer is not advised."""
    text = hints(["value"] * 3, "typed")
    assert "--experience" in text and "--proposer typed" not in text and "--refine" not in text
    text = hints(["parse", "parse", "value"], "typed")
    assert "of 3 wrong answers of the LM: 2 are no program" in text and "were none of the lines" in text
    assert "--refine 2" in hints(["value"] * 3, "predict")


def test_each_kind_of_failure_has_its_own_advice() -> None:
    """Copies that are missing, and answers that are cut off."""
    assert "`--guardian compiler`" in hints(["affine"] * 3 + ["value"], "predict")
    assert "raise --max-tokens" in hints(["value"] * 3 + ["parse"], "predict", truncated=3)
    assert "gave no answer" in "\n".join(advise(TASK, [], proposer="predict").hints)


def test_unknown_verdicts_are_no_lack_of_answers() -> None:
    """Their codes say what ended them."""
    lost = replace(wrong("return E0"), score=None, feedback={"unscored": True, "codes": ["memory-limit"]})
    text = "\n".join(advise(TASK, [lost], proposer="predict").hints)
    assert "1 of 1 answer is unknown (memory-limit)" in text and "gave no answer" not in text


def test_names_that_hide_the_tasks_own_are_named() -> None:
    """As an LM does that writes its results over the inputs."""
    over = wrong("E0 = step.Map(fn=fn_double).apply(E0)\nE1, fn_double = step.Copy().apply(E0)\nreturn E1", "value")
    text = "\n".join(advise(TASK, [over, wrong("return E0", "value")], proposer="predict").hints)
    assert "of 2 answers of the LM 1 give E0, fn_double to another stream" in text
    assert "to another stream" not in hints(["value"], "predict")
