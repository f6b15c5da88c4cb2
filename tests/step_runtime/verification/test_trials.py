"""A function that always fails makes its task unusable, with the cause; one that reads an input by name is doubted."""

import warnings
from pathlib import Path

import pytest

from step_runtime import TaskCodeError, TaskWarning, load_task

TASK = """
inputs: [{{name: E0, dtype: fp32, dims: [N, M], data_gen: torch.randn}}]
parameters: [{{name: W, dtype: fp32, dims: [N], data_gen: torch.randn}}]
{more}
fns:
- {{name: Neg, apply: "return [-input[0]]", input_dtype: fp32, output_dtype: fp32, func_name: fn_neg}}
- {{name: F, apply: "{apply}", input_dtype: "{taken}", output_dtype: "{given}", func_name: fn}}
outputs: [{{name: S0, dtype: fp32, dims: [N, M], data_transform: "-input_data['E0']"}}]
"""


def warned(folder: Path, apply: str, taken: str = "fp32", given: str = "fp32", more: str = "") -> list[str]:
    """The codes of the warnings on loading a task with this function."""
    path = folder / "task.yaml"
    path.write_text(TASK.format(apply=apply, taken=taken, given=given, more=more))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load_task(path)
    return [warning.message.code for warning in caught if isinstance(warning.message, TaskWarning)]


@pytest.mark.parametrize(
    ("apply", "cause"),
    [
        ("return input[0]", "apply returned Tensor; expected a list of 1 tensor"),
        ("return [input[0], input[0]]", "apply returned 2 components; expected 1"),
        ("return [inputs[0]]", "NameError: name 'inputs' is not defined"),
        ("return [input[1]]", "IndexError"),
        ("return [input_data['V'][0]]", "KeyError: 'V'"),
        ("return [input[0].expand(2)]", r"has shape \(2,\); expected \(\)"),
    ],
)
def test_a_function_that_always_fails_is_an_error_at_its_line(apply: str, cause: str, tmp_path: Path) -> None:
    """Whether or not a program would use it."""
    with pytest.raises(TaskCodeError, match=rf"task.yaml:7: .*fn.*{cause}.*at M=5"):
        warned(tmp_path, apply)


@pytest.mark.parametrize(
    ("apply", "codes"),
    [
        ("return [input[0] + torch.rand(())]", ["random-function"]),
        ("calls.append(1); return [input[0] * len(calls)]", ["random-function"]),
        ("torch.rand(()); return [input[0] + w]", []),
    ],
)
def test_a_function_with_another_result_for_the_same_element_is_doubted(
    apply: str, codes: list[str], tmp_path: Path
) -> None:
    """Whether it draws numbers or keeps state; one that only touches the generator is not."""
    assert warned(tmp_path, apply, more="global: calls = []; w = torch.rand(())") == codes


def test_a_function_that_fails_at_one_set_of_sizes_is_an_error(tmp_path: Path) -> None:
    """It has a size of the other in it."""
    buffer = "Buffer(fp32, [N])"
    with pytest.raises(TaskCodeError, match="at M=6, N=4"):
        warned(tmp_path, "return [torch.arange(9) * input[0]]", buffer, buffer, more="sizes: {N: [9, 4], M: [5, 6]}")


def test_a_function_that_may_take_other_numbers_is_a_warning(tmp_path: Path) -> None:
    """Here, matrices that are positive definite."""
    matrix = "Buffer(fp32, [N, N])"
    assert warned(tmp_path, "return [torch.linalg.cholesky(input[0])]", matrix, matrix) == ["function-fails"]
    assert warned(tmp_path, "assert input[0] > 5; return [input[0]]") == ["function-fails"]
    assert warned(tmp_path, "assert input[0] != 1 and input[0] != 0; return [input[0]]") == []


@pytest.mark.parametrize(
    ("taken", "apply"),
    [
        ("int32", "return [input_data['W'][input[0]]]"),
        ("Multihot(fp32, N)", "return [input[0].argmax()]"),
        ("bool", "return [input[0]]"),
    ],
)
def test_functions_are_tried_on_what_their_types_hold(taken: str, apply: str, tmp_path: Path) -> None:
    """Indices, bits."""
    assert warned(tmp_path, apply, taken=taken) == []


@pytest.mark.parametrize(
    ("apply", "more"),
    [
        ("return [input_data['E0'].mean()]", ""),
        ("if input[0] > 1e9: return [input_data['E0'].mean()]\n\n  return [-input[0]]", ""),
        ("return [whole('E0').mean()]", "global: |\n  def whole(name):\n    return input_data[name]\n"),
        ("return [input_data.get('E0').mean()]", ""),
    ],
)
def test_a_function_that_reads_an_input_by_name_is_a_warning(apply: str, more: str, tmp_path: Path) -> None:
    """In its code, or in what its code calls: one Map of it implements anything."""
    assert warned(tmp_path, apply, more=more) == ["input-by-name"]


def test_a_function_that_reads_a_parameter_by_name_is_fine(tmp_path: Path) -> None:
    """Programs do not see parameters."""
    assert warned(tmp_path, "return [input[0] * input_data['W'].sum()]") == []
