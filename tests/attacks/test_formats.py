"""Number formats hold these against a program, a snippet or a file that abuses them:

- what rounds, wraps around or counts otherwise than the reference is wrong, and so is what fits its types only in part;
- what a snippet returns in place of numbers of the declared format fails that program, with the reason, and no other;
- a format in which all results look alike leaves a doubt about the task;
- what a file writes in place of a format, or a number that the format lacks, is an error that names the line.
"""

import warnings
from pathlib import Path

import pytest

from step_runtime import TaskWarning, Verifier, load_task, loads_task
from step_runtime.base.errors import TaskError

TASK = loads_task(
    """
inputs:
- {name: X, dtype: bf16, dims: [M, N], data_gen: torch.randn}
- {name: I, dtype: int8, dims: [M, N], data_gen: "torch.randint(-128, 128, shape, dtype=torch.int8)"}
fns:
- {name: Sum, apply: "return [state[0] + input[0].float()]", init: [0],
   input_dtype: bf16, output_dtype: fp32, func_name: fn_sum}
- {name: SumNarrow, apply: "return [state[0] + input[0]]", init: [0],
   input_dtype: bf16, output_dtype: bf16, func_name: fn_sum_narrow}
- {name: Count, apply: "return [state[0] + input[0].to(torch.int32)]", init: [0],
   input_dtype: int8, output_dtype: int32, func_name: fn_count}
- {name: CountNarrow, apply: "return [state[0] + input[0]]", init: [0],
   input_dtype: int8, output_dtype: int8, func_name: fn_count_narrow}
- {name: Up, apply: "return [input[0].to(torch.int32)]", input_dtype: int8, output_dtype: int32, func_name: fn_up}
- {name: Inc, apply: "return [input[0] + 1]", input_dtype: int32, output_dtype: int32, func_name: fn_inc}
- {name: Widen, apply: "return [input[0]]", input_dtype: bf16, output_dtype: fp32, func_name: fn_widen}
- {name: Tiny, apply: "return [input[0].float()]", input_dtype: bf16, output_dtype: fp8_e5m2, func_name: fn_tiny}
- {name: Untiny, apply: "return [input[0].float()]", input_dtype: fp8_e5m2, output_dtype: bf16, func_name: fn_untiny}
outputs:
- {name: S, dtype: fp32, dims: [N], data_transform: ["input_data['X'].float().sum(-1)"]}
- {name: C, dtype: int32, dims: [N], data_transform: ["input_data['I'].sum(-1, dtype=torch.int32)"]}
sizes: {M: [80, 65], N: [3, 4]}
""",
    "formats/0",
)
SUM, COUNT = "step.Accum(fn=fn_sum, b=1).apply(X)", "step.Accum(fn=fn_count, b=1).apply(I)"
TINY = SUM.replace("(X)", "(step.Map(fn=fn_untiny).apply(step.Map(fn=fn_tiny).apply(X)))")
PROGRAMS = {
    "the right one": (SUM, COUNT, None),
    "a sum that is rounded at each step": (
        "step.Map(fn=fn_widen).apply(step.Accum(fn=fn_sum_narrow, b=1).apply(X))",
        COUNT,
        "value",
    ),
    "a count that wraps around": (
        SUM,
        "step.Map(fn=fn_up).apply(step.Accum(fn=fn_count_narrow, b=1).apply(I))",
        "value",
    ),
    "a count of one more": (SUM, f"step.Map(fn=fn_inc).apply({COUNT})", "value"),
    "a detour through a narrower format": (TINY, COUNT, "value"),
    "the outputs swapped": (COUNT, SUM, "shape"),
    "a function of another format": (SUM, COUNT.replace("(I)", "(X)"), "type"),
    "the narrow state as the wide output": (SUM.replace("fn_sum", "fn_sum_narrow"), COUNT, "shape"),
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_program_rounds_where_the_reference_does(kind: str) -> None:
    """Each wrong program differs from the right one by formats alone."""
    first, second, stage = PROGRAMS[kind]
    verdict = Verifier(TASK).verify(f"a = {first}\nb = {second}\nreturn a, b")
    assert (verdict.passed, verdict.stage) == (stage is None, stage)


def snippet(apply: str, format_: str, reference: str, data: str = "torch.randn") -> str:
    """A task file of one function, which computes its output."""
    return f"""
inputs:
- {{name: X, dtype: fp32, dims: [M], data_gen: {data}}}
fns:
- {{name: F, apply: "return [{apply}]", input_dtype: fp32, output_dtype: {format_}, func_name: fn_f}}
outputs:
- {{name: S, dtype: {format_}, dims: [M], data_transform: ["{reference}"]}}
"""


REFERENCES = {
    "bf16": "input_data['X']",
    "int8": "input_data['X'].round().to(torch.int8)",
    "bool": "input_data['X'] > 0",
}
NOT_NUMBERS = [
    "torch.tensor(5+1j)", "input[0].to(torch.complex64)", "input[0].to_sparse()",
    "torch.quantize_per_tensor(input[0].to(torch.float32), 0.1, 0, torch.quint8)", "input[0].to('meta')", "None",
    "[1]", "'x'", "10**400", "torch.bfloat16",
]  # fmt: skip


@pytest.mark.parametrize("format_", REFERENCES)
@pytest.mark.parametrize("value", NOT_NUMBERS)
def test_a_value_outside_the_format_fails_its_program(value: str, format_: str) -> None:
    """Complex, sparse, quantized and absent numbers, in every kind of format."""
    verdict = Verifier(loads_task(snippet(value, format_, REFERENCES[format_]), "formats/1")).verify(PROGRAM)
    assert (verdict.passed, verdict.stage, verdict.diagnostics[0].code) == (False, "run", "task-function")


PROGRAM = "return step.Map(fn=fn_f).apply(X)"
RIGHT = {"bf16": "input[0]", "int8": "input[0].round().to(torch.int64)", "bool": "torch.nn.Parameter(input[0]) > 0"}


@pytest.mark.parametrize("format_", RIGHT)
def test_numbers_of_the_format_pass(format_: str) -> None:
    """The control: the same tasks with a function that is right."""
    assert Verifier(loads_task(snippet(RIGHT[format_], format_, REFERENCES[format_]), "formats/1")).verify(PROGRAM)


ALIKE = {
    "all are the largest number": ("fp8_e4m3", "{X}.abs() * 1e9 + 1e9"),
    "all are infinite": ("fp16", "{X}.abs() * 1e9 + 1e9"),
    "all underflow": ("fp16", "{X} * 1e-30"),
    "all are NaN": ("bf16", "{X} * float('nan')"),
    "all are true": ("bool", "{X} ** 2 >= 0"),
    "all round to one number": ("fp8_e4m3", "{X}.sigmoid() * 0.01 + 1"),
}


@pytest.mark.parametrize("kind", ALIKE)
def test_results_that_look_alike_leave_a_doubt(kind: str, tmp_path: Path) -> None:
    """Any constant would pass; the control has the same function in a format that holds its results apart."""
    format_, text = ALIKE[kind]
    apply, reference = text.replace("{X}", "input[0]"), text.replace("{X}", "input_data['X']")
    assert doubts(snippet(apply, format_, reference), tmp_path) == {"constant-output"}
    assert not doubts(snippet("input[0]", "bf16", "input_data['X']"), tmp_path)


def doubts(text: str, folder: Path) -> set[str]:
    """The codes of what is reported when a task file is loaded."""
    path = folder / "task.yaml"
    path.write_text(text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load_task(path)
    return {warning.message.code for warning in caught if isinstance(warning.message, TaskWarning)}


UNKNOWN = [
    "float64", "bf16; import os", "'bf16\\u200b'", "'\\uff42f16'", "__import__('os')", "Scalar(bf16)", "Buffer(bf16)",
    "Buffer(bf17, [M])", "'Buffer(' ", f"'{'[' * 5000}'", "int8.max", "[]", "null", "8",
]  # fmt: skip


@pytest.mark.parametrize("dtype", UNKNOWN, ids=lambda text: text[:20])
def test_an_unknown_format_is_an_error_with_its_line(dtype: str) -> None:
    """As an input's type; the control is the file with a format there."""
    good = snippet("input[0]", "bf16", "input_data['X']")
    loads_task(good, "formats/3")
    with pytest.raises(TaskError) as error:
        loads_task(good.replace("dtype: fp32, dims", f"dtype: {dtype}, dims"), "formats/3")
    assert "formats/3" in str(error.value)
    assert len(str(error.value)) < 2500


LACKING = {
    "int8": ["128", "-129", "0.5", "inf", "nan", "1e3"],
    "bool": ["2", "-1", "0.5", "nan"],
    "fp8_e4m3": ["449", "-inf", "inf"],
    "fp16": ["65536", "1e30"],
}


@pytest.mark.parametrize(("format_", "init"), [(name, init) for name, inits in LACKING.items() for init in inits])
def test_a_state_starts_with_a_number_of_its_format(format_: str, init: str) -> None:
    """What the format lacks is an error of the task file, never a number that wraps around."""
    text = f"""
inputs:
- {{name: X, dtype: {format_}, dims: [M], data_gen: torch.ones}}
fns:
- {{name: F, apply: "return [state[0]]", init: [INIT],
   input_dtype: {format_}, output_dtype: {format_}, func_name: fn_f}}
outputs:
- {{name: S, dtype: {format_}, dims: [1], data_transform: ["input_data['X'][:1]"]}}
"""
    loads_task(text.replace("INIT", "1"), "formats/4")
    with pytest.raises(TaskError, match=r"formats/4:\d+"):
        loads_task(text.replace("INIT", init), "formats/4")
