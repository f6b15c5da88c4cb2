"""What a task's author should know when the file is loaded.

Invariants: a file whose verdicts are worth less than they seem loads with a warning that says why; one whose verdicts
are sound loads without. A function that always fails makes its task unusable. Other errors are in `test_validation`.
"""

import warnings
from pathlib import Path

import pytest
import torch

from step_runtime import TaskCodeError, TaskWarning, load_task
from tests.support.samples import MINIMAL


def loaded(folder: Path, text: str) -> list[TaskWarning]:
    """The warnings on loading a file of this text."""
    path = folder / "task.yaml"
    path.write_text(text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load_task(path)
    return [each.message for each in caught if isinstance(each.message, TaskWarning)]


def warned(folder: Path, text: str) -> list[str]:
    """Their messages, without the file's path."""
    return [str(each).removeprefix(f"{folder / 'task.yaml'}: ") for each in loaded(folder, text)]


CONSTANT = "output S0 does not depend on the inputs at M=5, N=7: any constant would pass"
TOLERANCE = "output S0 changes with the inputs by less than the comparison's tolerance at M=5, N=7: a constant"


@pytest.mark.parametrize(
    ("reference", "quoted"),
    [
        ("torch.ones(N_value)", CONSTANT),
        ("(input_data['E0'] * 0).sum(1)", CONSTANT),
        ("(input_data['E0'] * 1e-9).sum(1)", TOLERANCE),
        ("input_data['E0'].prod(1) * 1e-8", TOLERANCE),
        ("3 + (input_data['E0'] * 1e-9).sum(1)", TOLERANCE),
        ("input_data['E0'].sum(1) * float('nan')", "output S0 is NaN throughout at M=5, N=7 for every input"),
    ],
)
def test_a_reference_that_a_constant_matches_is_reported(reference: str, quoted: str, tmp_path: Path) -> None:
    """At each set of sizes, whether its numbers are all the same or the comparison does not tell them apart."""
    found = warned(tmp_path, MINIMAL.replace("input_data['E0'].sum(1)", reference))
    assert len(found) == 2
    assert found[0].startswith(quoted)


def test_a_reference_that_is_nan_for_some_inputs_is_reported(tmp_path: Path) -> None:
    """A pattern of NaN that all inputs share is the author's own, see the next test."""
    reference = "input_data['E0'].sum(1) * torch.where(input_data['E0'][:, 0] > 0.5, 1, float('nan'))"
    [found, *_] = warned(tmp_path, MINIMAL.replace("input_data['E0'].sum(1)", reference))
    assert found.startswith("output S0 is NaN for some inputs, in ") and "7 numbers at M=5, N=7" in found


@pytest.mark.parametrize(
    "reference",
    [
        "input_data['E0'].sum(1)",
        "input_data['E0'].sum(1) * 1e-5",
        "(input_data['E0'].sum(1) > 2.5).double()",
        "input_data['E0'].sum(1).cumsum(0).where(torch.arange(N_value) > 1, float('nan'))",
        "torch.manual_seed(5); input_data['E0'].sum(1)",
        "torch.randn(3); input_data['E0'].sum(1)",
        "input_data['E0'].sum(1) + W",
    ],
)
def test_a_reference_that_tells_inputs_apart_is_not(reference: str, tmp_path: Path) -> None:
    """However small its numbers, wherever they are none, and whatever is drawn by torch, in `global` too."""
    text = f"global: W = torch.randn(N_value)\n{MINIMAL}"
    assert warned(tmp_path, text.replace("input_data['E0'].sum(1)", reference)) == []


DRAWN = {
    "import torch": "torch.randn(N_value)",
    "import random": "random.random()",
    "import numpy": "numpy.random.rand()",
    "import time": "time.time_ns() % 1_000_003",
    "import itertools; counter = itertools.count()": "next(counter)",
    "import itertools; coin = itertools.cycle([1, 1, 1, 0])": "next(coin)",
    "import random; x = random.random()": "x",
}


@pytest.mark.parametrize("drawn", DRAWN)
def test_random_numbers_from_anywhere_are_reported(drawn: str, tmp_path: Path) -> None:
    """A reference runs again on the same inputs, and once more after `global` has run again."""
    text = f"global: {drawn}\n{MINIMAL}".replace("input_data['E0'].sum(1)", f"input_data['E0'].sum(1) + {DRAWN[drawn]}")
    (found,) = warned(tmp_path, text)
    assert found.startswith("reference of output S0 gives other values for the same inputs when ")


SIZES = {
    "sizes: {M: 6, N: 6}": [
        "M and N are both 6 at every set of sizes: a program that takes one for the other may pass"
    ],
    "sizes: {M: [6, 4], N: [6, 4]}": [
        "M and N are both 6 and 4 at every set of sizes: a program that takes one for the other may pass"
    ],
    "sizes: {M: [6, 4], N: [6, 5]}": [],
    "sizes: {M: 6, N: 3}": [],
    "sizes: {K: [5, 6], D: 3}": [],
    "sizes: {E: [5, 6]}": [],
    "global: ctx[N] = M_value": [
        "M and N are both 5 and 6 at every set of sizes: a program that takes one for the other may pass"
    ],
    "global: ctx[N] = ctx[M] + 1": [],
}


@pytest.mark.parametrize("given", SIZES)
def test_sizes_that_distinguish_too_little_are_reported(given: str, tmp_path: Path) -> None:
    """Two dims in use that are alike in every set, as `global` leaves them."""
    alike = [text for text in warned(tmp_path, f"{MINIMAL}{given}\n") if "takes one for the other" in text]
    assert alike == SIZES[given]


def test_checks_of_a_task_cost_few_runs_of_its_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference that tells two inputs apart, at sizes that are fixed, is run less than ten times in all.

    Where the data is small, once more for either end of each dim, once for what these are compared with, and four times
    to see whether it repeats its values.
    """
    monkeypatch.setattr("torch.runs", [], raising=False)
    text = MINIMAL.replace("input_data['E0'].sum(1)", "torch.runs.append(1); input_data['E0'].sum(1)")
    warned(tmp_path, f"{text}sizes: {{M: 60, N: 70}}\n")
    assert 0 < len(vars(torch)["runs"]) < 10 + 2 * 2 + 1 + 4
    vars(torch)["runs"].clear()
    warned(tmp_path, f"{text}sizes: {{M: 1500, N: 700}}\n")
    assert 0 < len(vars(torch)["runs"]) < 10


@pytest.mark.parametrize(
    ("comment", "accepts"), [("", False), ("  # accepted: equal-dims, fixed-dim", True), ("  # accepted: x", False)]
)
def test_a_warning_is_accepted_by_a_comment_on_its_line(comment: str, accepts: bool, tmp_path: Path) -> None:
    """By its code; others are given."""
    found = warned(tmp_path, f"{MINIMAL}sizes: {{M: [6, 4], N: 3}}{comment}\n")
    assert len(found) == (0 if accepts else 1) and all("N is 3 at every set of sizes" in message for message in found)


TASK = """
inputs: [{{name: E0, dtype: fp32, dims: [N, M], {input}}}]
fns: [{{name: F, apply: "{apply}", input_dtype: fp32, output_dtype: fp32, func_name: fn}}]
outputs: [{{name: S0, dtype: fp32, dims: [N, M], data_transform: "{reference}"}}]
{more}
"""
GOOD = {"input": "data_gen: torch.randn", "apply": "return [-input[0]]", "reference": "-input_data['E0']", "more": ""}


def codes(folder: Path, **fields: str) -> list[str]:
    return [each.code for each in loaded(folder, TASK.format(**{**GOOD, **fields}))]


SOFTMAX = 'data_gen: "torch.softmax(torch.randn(shape), -1)", assumes: [sums_to_1, positive]'
SIGMOID = 'data_gen: "torch.sigmoid(torch.randn(shape))"'
WEIGHTS = {"reference": "-input_data['E0'] * input_data['W'][:, None]"}
PARAMETER = "parameters: [{{name: W, dtype: fp32, dims: [M], data_gen: {}}}]"
CODES: list[tuple[dict[str, str], list[str]]] = [
    ({"more": "sizes: {N: 3}"}, ["fixed-dim"]),
    ({"more": "sizes: {N: [3, 3], M: [2, 2]}"}, ["fixed-dim", "fixed-dim"]),
    ({"apply": "return [input[0] > 0]"}, ["bool-function"]),
    ({"apply": "x = torch.isnan(input[0])\\nreturn [x]"}, ["bool-function"]),
    ({"apply": "return [(input[0] > 0).to(input[0].dtype)]"}, []),
    ({"apply": "return [input[0] * (input[0] > 0)]"}, []),
    ({"input": "data_gen: torch.randn, assumes: [positive]"}, ["assumption"]),
    ({"input": "data_gen: torch.rand, assumes: [nonnegative]"}, []),
    ({"input": SOFTMAX}, []),
    # A program without the function that multiplies by it passes; with random weights, it does not.
    ({**WEIGHTS, "more": PARAMETER.format("torch.ones")}, ["constant-input"]),
    ({**WEIGHTS, "more": PARAMETER.format("torch.rand")}, []),
    *(({"input": f"data_gen: {data}"}, []) for data in ("binary", "ids(2)", "one_hot", "sorted(torch.rand)")),
    # Numbers of an expression whose range nothing tells; whole numbers, and what `assumes` describes, are fine.
    ({"input": SIGMOID}, ["unstressed-input"]),
    ({"input": f"{SIGMOID}, assumes: [positive]"}, []),
    ({"input": 'data_gen: "torch.randint(0, 9, shape)"'}, []),
    ({"input": 'data_gen: "2 * torch.randn(shape)"'}, []),
]


@pytest.mark.parametrize(("fields", "expected"), CODES)
def test_what_is_doubtful_is_named_by_its_code(fields: dict[str, str], expected: list[str], tmp_path: Path) -> None:
    assert codes(tmp_path, **fields) == expected


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
    text = TASK.format(**GOOD | {"input": f'data_gen: "{data}"', "reference": f"{reference} + input_data['E1']"})
    (found,) = loaded(tmp_path, text.replace("}]\nfns", f"}}{varied}\nfns"))
    assert (found.code, found.location) == ("constant-input", ("inputs", 0))
    assert "input E0 has the same data" in str(found)


def test_constant_data_that_no_reference_reads_is_not_named(tmp_path: Path) -> None:
    """A program may count with it."""
    ones = ", {name: E1, dtype: fp32, dims: [N, M], data_gen: torch.ones}]"
    assert loaded(tmp_path, TASK.format(**GOOD).replace("}]\nfns", f"}}{ones}\nfns")) == []


OF_FUNCTION = """
inputs: [{{name: E0, dtype: fp32, dims: [N, M], data_gen: torch.randn}}]
parameters: [{{name: W, dtype: fp32, dims: [N], data_gen: torch.randn}}]
{more}
fns:
- {{name: Neg, apply: "return [-input[0]]", input_dtype: fp32, output_dtype: fp32, func_name: fn_neg}}
- {{name: F, apply: "{apply}", input_dtype: "{taken}", output_dtype: "{given}", func_name: fn}}
outputs: [{{name: S0, dtype: fp32, dims: [N, M], data_transform: "-input_data['E0']"}}]
"""


def of_function(folder: Path, apply: str, taken: str = "fp32", given: str = "fp32", more: str = "") -> list[str]:
    """The codes of the warnings on loading a task with this function."""
    text = OF_FUNCTION.format(apply=apply, taken=taken, given=given, more=more)
    return [each.code for each in loaded(folder, text)]


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
        of_function(tmp_path, apply)


@pytest.mark.parametrize(
    ("apply", "expected"),
    [
        ("return [input[0] + torch.rand(())]", ["random-function"]),
        ("calls.append(1); return [input[0] * len(calls)]", ["random-function"]),
        ("torch.rand(()); return [input[0] + w]", []),
    ],
)
def test_a_function_with_another_result_for_the_same_element_is_doubted(
    apply: str, expected: list[str], tmp_path: Path
) -> None:
    """Whether it draws numbers or keeps state; one that only touches the generator is not."""
    assert of_function(tmp_path, apply, more="global: calls = []; w = torch.rand(())") == expected


def test_a_function_that_fails_at_one_set_of_sizes_is_an_error(tmp_path: Path) -> None:
    """It has a size of the other in it."""
    buffer = "Buffer(fp32, [N])"
    with pytest.raises(TaskCodeError, match="at M=6, N=4"):
        of_function(
            tmp_path, "return [torch.arange(9) * input[0]]", buffer, buffer, more="sizes: {N: [9, 4], M: [5, 6]}"
        )


def test_a_function_that_may_take_other_numbers_is_a_warning(tmp_path: Path) -> None:
    """Here, matrices that are positive definite."""
    matrix = "Buffer(fp32, [N, N])"
    assert of_function(tmp_path, "return [torch.linalg.cholesky(input[0])]", matrix, matrix) == ["function-fails"]
    assert of_function(tmp_path, "assert input[0] > 5; return [input[0]]") == ["function-fails"]
    assert of_function(tmp_path, "assert input[0] != 1 and input[0] != 0; return [input[0]]") == []


@pytest.mark.parametrize(
    ("taken", "apply"),
    [
        ("int32", "return [input_data['W'][input[0]]]"),
        ("Multihot(fp32, N)", "return [input[0].argmax()]"),
        ("bool", "return [input[0].double()]"),
    ],
)
def test_functions_are_tried_on_what_their_types_hold(taken: str, apply: str, tmp_path: Path) -> None:
    """Indices, bits."""
    assert of_function(tmp_path, apply, taken=taken) == []


@pytest.mark.parametrize(
    ("apply", "more"),
    [
        ("return [input_data['E0'].mean()]", ""),
        ("return [whole('E0').mean()]", "global: |\n  def whole(name):\n    return input_data[name]\n"),
        ("return [input_data.get('E0').mean()]", ""),
    ],
)
def test_a_function_that_reads_an_input_by_name_is_a_warning(apply: str, more: str, tmp_path: Path) -> None:
    """In its code, or in what its code calls: one Map of it implements anything."""
    assert of_function(tmp_path, apply, more=more) == ["input-by-name"]


def test_a_function_that_reads_a_parameter_by_name_is_fine(tmp_path: Path) -> None:
    """Programs do not see parameters."""
    assert of_function(tmp_path, "return [input[0] * input_data['W'].sum()]") == []
