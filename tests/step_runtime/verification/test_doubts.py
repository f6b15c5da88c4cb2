"""A task that a simpler program would pass is doubted when it is loaded; one that none would pass is not."""

import warnings
from pathlib import Path

import pytest

from step_runtime import TaskWarning, load_task

TASK = """
inputs: [{{name: E0, dtype: fp32, dims: [N, M], {input}}}]
fns: [{{name: F, apply: "{apply}", input_dtype: fp32, output_dtype: fp32, func_name: fn}}]
outputs: [{{name: S0, dtype: fp32, dims: [N, M], data_transform: "{reference}"}}]
{more}
"""
GOOD = {"input": "data_gen: torch.randn", "apply": "return [-input[0]]", "reference": "-input_data['E0']", "more": ""}


def codes(folder: Path, **fields: str) -> list[str]:
    path = folder / "task.yaml"
    path.write_text(TASK.format(**{**GOOD, **fields}))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load_task(path)
    return [warning.message.code for warning in caught if isinstance(warning.message, TaskWarning)]


@pytest.mark.parametrize("function", ["abs()", "clamp(min=0)", "relu()", "clamp(-5, 5)"])
def test_a_function_that_changes_nothing_is_named(function: str, tmp_path: Path) -> None:
    """As none of the numbers sampled are in the part of its domain where it would."""
    reference = f"input_data['E0'].{function} * 2"
    assert codes(tmp_path, input="data_gen: torch.rand", reference=reference) == ["simpler-reference"]


def test_a_function_that_matters_is_not(tmp_path: Path) -> None:
    """Negative numbers tell it."""
    assert codes(tmp_path, reference="input_data['E0'].abs() * 2") == []
    assert codes(tmp_path, reference="torch.nn.functional.relu(input_data['E0'])") == []


def test_a_stream_dim_of_one_size_is_named(tmp_path: Path) -> None:
    """Each of them."""
    assert codes(tmp_path, more="sizes: {N: 3}") == ["fixed-dim"]
    assert codes(tmp_path, more="sizes: {N: [3, 3], M: [2, 2]}") == ["fixed-dim", "fixed-dim"]


@pytest.mark.parametrize(
    ("apply", "doubted"),
    [
        ("return [input[0] > 0]", True),
        ("x = torch.isnan(input[0])\\n    return [x]", True),
        ("return [(input[0] > 0).to(input[0].dtype)]", False),
        ("return [input[0] * (input[0] > 0)]", False),
    ],
)
def test_a_function_that_returns_a_bool_is_named(apply: str, doubted: bool, tmp_path: Path) -> None:
    """Not one that computes with it."""
    assert codes(tmp_path, apply=apply.replace("    ", "")) == ["bool-function"] * doubted


def test_an_assumption_that_the_data_breaks_is_named(tmp_path: Path) -> None:
    """And not one that it keeps."""
    assert codes(tmp_path, input="data_gen: torch.randn, assumes: [positive]") == ["assumption"]
    assert codes(tmp_path, input="data_gen: torch.rand, assumes: [nonnegative]") == []
    summed = 'data_gen: "torch.softmax(torch.randn(shape), -1)", assumes: [sums_to_1, positive]'
    assert codes(tmp_path, input=summed) == []


def test_a_function_that_declares_a_bool_is_not_named(tmp_path: Path) -> None:
    """It returns what it declares."""
    path = tmp_path / "task.yaml"
    path.write_text(
        TASK.format(**GOOD | {"apply": "return [input[0] > 0]"}).replace("output_dtype: fp32", "output_dtype: bool")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_task(path)


@pytest.mark.parametrize(
    ("data", "reference"),
    [
        ("torch.ones", "torch.cumsum(input_data['E0'], -1)"),
        ("torch.arange(M_value * N_value).reshape(shape)", "input_data['E0'] * 2"),
        ("torch.rand(shape[1]).expand(shape)", "torch.cumsum(input_data['E0'], -1)"),
        ("torch.rand(shape[0], 1).expand(shape)", "torch.cumsum(input_data['E0'], -1)"),
        ("torch.rand(()).expand(shape)", "input_data['E0'] - 1"),
    ],
)
def test_data_that_does_not_vary_is_named(data: str, reference: str, tmp_path: Path) -> None:
    """At every seed, or along a dim; next to an input whose data varies, too, so that the output is no constant."""
    varied = ", {name: E1, dtype: fp32, dims: [N, M], data_gen: torch.randn}]"
    path = tmp_path / "task.yaml"
    text = TASK.format(**GOOD | {"input": f'data_gen: "{data}"', "reference": f"{reference} + input_data['E1']"})
    path.write_text(text.replace("}]\nfns", f"}}{varied}\nfns"))
    with pytest.warns(TaskWarning, match="input E0 has the same data") as caught:
        load_task(path)
    assert [(warning.message.code, warning.message.location) for warning in caught] == [  # type: ignore[union-attr]
        ("constant-input", ("inputs", 0))
    ]


def test_constant_data_that_no_reference_reads_is_not_named(tmp_path: Path) -> None:
    """A program may count with it."""
    ones = ", {name: E1, dtype: fp32, dims: [N, M], data_gen: torch.ones}]"
    path = tmp_path / "task.yaml"
    path.write_text(TASK.format(**GOOD).replace("}]\nfns", f"}}{ones}\nfns"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_task(path)


def test_a_constant_parameter_is_named(tmp_path: Path) -> None:
    """A program without the function that multiplies by it passes; with random weights, it does not."""
    more = "parameters: [{{name: W, dtype: fp32, dims: [M], data_gen: {}}}]"
    reference = "-input_data['E0'] * input_data['W'][:, None]"
    assert codes(tmp_path, more=more.format("torch.ones"), reference=reference) == ["constant-input"]
    assert codes(tmp_path, more=more.format("torch.rand"), reference=reference) == []


@pytest.mark.parametrize("data", ["binary", "ids(2)", "one_hot", "sorted(torch.rand)"])
def test_data_of_few_values_is_not_named(data: str, tmp_path: Path) -> None:
    """It varies."""
    assert codes(tmp_path, input=f"data_gen: {data}") == []


def test_data_that_is_not_stressed_is_named(tmp_path: Path) -> None:
    """Numbers of an expression whose range nothing tells; whole numbers, and what `assumes` describes, are fine."""
    sigmoid = 'data_gen: "torch.sigmoid(torch.randn(shape))"'
    assert codes(tmp_path, input=sigmoid) == ["unstressed-input"]
    assert codes(tmp_path, input=f"{sigmoid}, assumes: [positive]") == []
    assert codes(tmp_path, input='data_gen: "torch.randint(0, 9, shape)"') == []
    assert codes(tmp_path, input='data_gen: "2 * torch.randn(shape)"') == []
