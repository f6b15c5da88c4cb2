"""Interpretation PyTorch as text: differently written code of one meaning gives one term, other code another."""

from __future__ import annotations

from pipeline.lms.embedded.task_view import TaskView
from step_runtime.tasks.reader import loads_task


def task_view(*fns: str, reference: str = "input_data['E0'].sum(-1)") -> TaskView:
    head = "inputs:\n- {name: E0, dtype: fp32, dims: [M, N], data_gen: torch.randn}\n"
    tail = f'outputs:\n- {{name: S0, dtype: fp32, dims: [N], data_transform: "{reference}"}}\n'
    return TaskView(loads_task(f"{head}fns:\n{''.join(fns)}{tail}"))


def test_a_state_that_the_next_step_ignores_is_an_emission() -> None:
    """A fold part of whose state is never read again is told from one that reads all of it."""
    entry = "- {{name: F, apply: '{}', init: [0, 0], input_dtype: fp32, output_dtype: [fp32, fp32], func_name: {}}}\n"
    view = task_view(
        entry.format("return [state[0] + input[0], input[0] - state[0]]", "fn_a"),
        entry.format("return [state[0] + input[0], state[1] + state[0]]", "fn_b"),
    )
    assert [view.emits(fn) for fn in view.fns] == [True, False]


def test_a_fold_is_read_as_the_reduction_or_the_scan_that_it_is() -> None:
    """Accum of an addition is a sum, which this reference computes; Scan of it a running sum, which it does not."""
    view = task_view(
        "- {name: F, apply: 'return [state[0] + input[0]]', init: [0], input_dtype: fp32, output_dtype: fp32, "
        "func_name: fn}\n"
    )
    fn, arguments = view.fns[0], view.interpretation.inputs[0]
    assert view.interpretation.wanted(view.interpretation.value(fn, arguments, "Accum"))
    assert not view.interpretation.wanted(view.interpretation.value(fn, arguments, "Scan"))


def test_a_sum_of_sums_is_read_in_both_ways() -> None:
    """The variance of what is centred already: only if both sums are along one dim has it no mean any more."""
    add = (
        "- {name: F, apply: 'return [state[0] + input[0]]', init: [0], input_dtype: fp32, output_dtype: fp32, "
        "func_name: fn}\n"
    )
    mean = "(input_data['E0'] - input_data['E0'].mean(-1, keepdim=True)).mean(-1)"
    view = task_view(add, reference=f"{mean} + input_data['E0'].sum(-1)")
    plain = task_view(add).interpretation.outputs[0][0]
    assert [len(interpretation.outputs[0][0].summands) for interpretation in view.interpretations] == [
        3,
        len(plain.summands),
    ]
    assert len(task_view(add).interpretations) == 1


def test_what_another_way_computes_is_useful_and_not_wanted() -> None:
    """A reference that divides by a root does not compute its inverse; a function that does is of use all the same."""
    entry = "- {{name: F, apply: '{}', input_dtype: fp32, output_dtype: fp32, func_name: {}}}\n"
    view = task_view(
        entry.format("return [torch.rsqrt(1 + input[0])]", "fn_a"),
        entry.format("return [torch.exp(1 + input[0])]", "fn_b"),
        reference="(input_data['E0'] / torch.sqrt(1 + input_data['E0'])).sum(-1)",
    )
    interpretation = view.interpretation
    inverse, unlike = (interpretation.value(fn, interpretation.inputs[0], "Map") for fn in view.fns)
    assert not interpretation.wanted(inverse) and interpretation.useful(inverse)
    assert not interpretation.wanted(unlike) and not interpretation.useful(unlike)


def test_elements_that_are_moved_by_different_amounts_are_not_the_same() -> None:
    """A cross product, which is a difference of such products, does not vanish, so that its arguments count."""
    view = task_view(
        """
- name: Turn
  apply: "return [input[1] + torch.linalg.cross(input[0], input[1])]"
  input_dtype: ["Buffer(fp32, [3])", "Buffer(fp32, [3])"]
  output_dtype: Buffer(fp32, [3])
  func_name: fn_turn
""",
        """
- name: Second
  apply: "return [input[1] + input[0] - input[0]]"
  input_dtype: ["Buffer(fp32, [3])", "Buffer(fp32, [3])"]
  output_dtype: Buffer(fp32, [3])
  func_name: fn_second
""",
    )
    turn, second = view.fns
    assert view.projects(second) and not view.projects(turn)
