"""Programs that fit what they were tried on fall where they are judged on what they were not; right ones do not."""

from functools import cache

import pytest

from step_runtime import Task, Verifier, loads_task
from step_runtime.program.limits import Limits
from step_runtime.verification.held_out import HeldOutTask
from tests.support import oracles


@cache
def task(sizes: str, data_gen: str = "torch.randn", reference: str = "", dims: str = "M, N") -> Task:
    """Sums of the rows of X by default; functions to add, to halve sums, and to keep numbers that are positive."""
    code = reference or "input_data['X'].sum(-1)"
    return loads_task(
        f"""
inputs:
- {{name: X, dtype: fp32, dims: [{dims}], data_gen: {data_gen}}}
fns:
- {{name: Add, apply: 'return [state[0] + input[0]]', init: [0], input_dtype: fp32, output_dtype: fp32,
   func_name: fn_add}}
- {{name: Relu, apply: 'return [torch.relu(input[0])]', input_dtype: fp32, output_dtype: fp32, func_name: fn_relu}}
outputs:
- {{name: Y, dtype: fp32, dims: [N], data_transform: "{code}"}}
sizes: {sizes}
""",
        "rows",
    )


def repeated(sizes: str) -> Task:
    """Each number of X M times."""
    return loads_task(
        "inputs:\n- {name: X, dtype: fp32, dims: [N], data_gen: torch.randn}\n"
        "outputs:\n- name: Y\n  dtype: fp32\n  dims: [M, N]\n"
        f"  data_transform: \"input_data['X'][:, None].expand(-1, M_value)\"\nsizes: {sizes}\n",
        "repeated",
    )


RIGHT = "return step.Accum(fn=fn_add, b=1).apply(X)"


@pytest.mark.parametrize("name", ["gemm/0", "norm/0", "index/0"])
def test_right_programs_pass_and_are_proved(name: str) -> None:
    """An oracle passes at primes, equal and free dims, on stress inputs, and in exact arithmetic."""
    found = HeldOutTask(oracles.task(name), seed=3).judge(oracles.oracle(name))
    assert (found.answer, found.findings) == ("passed", ())
    assert found.exact is not None and found.exact.answer == "proved"
    assert [place.partition(":")[0] for place in found.sizes] == ["primes", "equal", "free"]


def test_a_count_that_fits_even_sizes_falls() -> None:
    """A program that repeats `M // 2 * 2` times is right where M is even, as it is at all of the task's own sizes."""
    given, text = repeated("{M: [4, 6, 10], N: [3, 5, 9]}"), "return step.Repeat(n=M // 2 * 2).apply(X)"
    assert Verifier(given).verify(text).passed
    held = HeldOutTask(given, seed=0)
    assert held.judge("return step.Repeat(n=M).apply(X)").answer == "passed"
    assert held.judge(text).answer == "failed"


def test_a_program_right_for_numbers_that_are_not_negative_falls() -> None:
    """The inputs are from 0 to 1, so that a program without the reference's relu passes, and falls here."""
    given = task("{M: [5, 6], N: [7, 4]}", "torch.rand", "torch.relu(input_data['X']).sum(-1)")
    right = "return step.Accum(fn=fn_add, b=1).apply(step.Map(fn=fn_relu).apply(X))"
    assert Verifier(given).verify(RIGHT).passed
    held = HeldOutTask(given, seed=0)
    assert held.judge(right).answer == "passed"
    found = held.judge(RIGHT)
    assert found.answer == "failed" and found.findings[0].code in ("stress-value", "exact-different")
    assert "output Y" in found.reason


def test_a_limit_of_time_makes_it_unknown() -> None:
    """A program that a limit ended is neither passed nor failed, and the reason says which."""
    given = task("{M: [5, 6], N: [7, 4]}")
    found = HeldOutTask(given, seed=0, limits=Limits(seconds=1e-9)).judge(RIGHT)
    assert found.answer == "unknown" and found.findings[0].code == "time-limit"
