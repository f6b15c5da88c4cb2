"""When outputs count as equal, and how a difference is reported.

Invariants: `assert_close`'s tolerance decides, in every floating type, what counts as a difference and what is counted
as one; NaN equals NaN; the two numbers in a report differ as printed.
"""

import pytest
import torch
from torch import Tensor

from step_runtime import Verifier
from step_runtime.base.formats import FORMATS
from step_runtime.verification.compare import TOLERANCES, close, difference
from tests.support.small_tasks import of_scalars

DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)

"""Those for which `assert_close` has tolerances."""


def _accepted(a: Tensor, b: Tensor) -> bool:
    try:
        torch.testing.assert_close(a, b, equal_nan=True)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("scale", [0.0, 1.0, 1000.0])
def test_the_tolerance_is_that_of_assert_close(dtype: torch.dtype, scale: float) -> None:
    """Just inside both tolerances numbers are close, just outside they are not, and `assert_close` says the same."""
    rtol, atol = TOLERANCES[dtype]
    reference = torch.tensor([scale], dtype=dtype)
    margin = atol + rtol * scale
    verdicts = []
    for part in (0.5, 0.9, 1.1, 2.0):
        result = (reference.double() + part * margin).to(dtype)
        verdicts.append(close(result, reference))
        assert verdicts[-1] == _accepted(result, reference) == (difference(result, reference) is None)
    assert verdicts[0] and not verdicts[-1]


@pytest.mark.parametrize(("dtype", "step"), [(torch.float8_e4m3fn, 2.0**-3), (torch.float8_e5m2, 2.0**-2)])
def test_fp8_numbers_are_close_to_their_neighbors_only(dtype: torch.dtype, step: float) -> None:
    """From 1 on numbers are a step apart: the next one is close, the one after it is not, and 0 is not its neighbor."""
    one = torch.tensor([1.0]).to(dtype)
    for steps, alike in ((0, True), (1, True), (2, False)):
        other = torch.tensor([1 + steps * step]).to(dtype)
        assert close(other, one) == alike == (difference(other, one) is None)
    least = torch.tensor([1], dtype=torch.uint8).view(dtype)
    assert not close(least, torch.tensor([0.0]).to(dtype))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.bool])
def test_integers_and_truth_values_are_exact(dtype: torch.dtype) -> None:
    """The next integer, and the other truth value, differ; the message names both."""
    zero, one = torch.tensor([0], dtype=dtype), torch.tensor([1], dtype=dtype)
    assert close(one, one.clone()) and not close(one, zero)
    message = difference(one, zero)
    assert message is not None and message.endswith("first at [0]: 1, expected 0")


def test_every_format_has_a_tolerance() -> None:
    """So that outputs of any format can be compared."""
    assert {getattr(torch, format_.torch) for format_ in FORMATS.values()} | {torch.float64} == set(TOLERANCES)


def test_what_is_within_the_tolerance_is_not_counted() -> None:
    """In float32, one number of 1,000 is out of tolerance: the count is 1 and the place is its own."""
    reference = torch.linspace(1, 2, 1000, dtype=torch.float32)
    result = reference * (1 + 4e-7)
    result[700] += 1
    message = difference(result, reference)
    assert message is not None
    assert message.startswith("differs from the reference in 1 of 1,000 numbers; first at [700]: ")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([[0, 0, 0], [0, 5, 0]], "in 1 of 6 numbers; first at [1, 1]: 5, expected 0"),
        ([[0, 0, 3], [4, 5, 0]], "in 3 of 6 numbers; first at [0, 2]: 3, expected 0"),
        ([[0, 0, float("nan")], [4, float("inf"), 0]], "in 3 of 6 numbers, 2 of them NaN or infinite; first at [0, 2]"),
    ],
)
def test_differences_are_counted(rows: list[list[float]], expected: str) -> None:
    """Every number that differs counts once, and the first in row-major order is shown."""
    message = difference(torch.tensor(rows, dtype=torch.float64), torch.zeros(2, 3, dtype=torch.float64))
    assert message is not None and expected in message


def test_what_the_reference_holds_too_is_not_counted_as_odd() -> None:
    """NaN and infinities where the reference has them at the same place are no news."""
    reference = torch.tensor([float("nan"), float("inf"), float("inf"), 1.0], dtype=torch.float64)
    result = torch.tensor([float("nan"), float("inf"), float("-inf"), 2.0], dtype=torch.float64)
    message = difference(result, reference)
    assert message == "differs from the reference in 2 of 4 numbers; first at [2]: -inf, expected inf"


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        (1.5, 2.5, "first at [0]: 1.5, expected 2.5"),
        (1.17949012, 1.17949034, "first at [0]: 1.1794901, expected 1.1794903"),
        (2.0**53, 2.0**53 + 2**31, "first at [0]: 9.007199e+15, expected 9.007201e+15"),
        (float("nan"), 1.0, "1 of them NaN or infinite; first at [0]: nan, expected 1"),
    ],
)
def test_two_numbers_are_shown_to_distinct_digits(one: float, other: float, shown: str) -> None:
    """Six digits are shown, or as many as it takes."""
    found = difference(torch.tensor([one], dtype=torch.float64), torch.tensor([other], dtype=torch.float64))
    assert found is not None and found.endswith(shown)


def test_other_shapes_are_reported() -> None:
    """Numbers of other shapes are not compared."""
    assert difference(torch.ones(2), torch.ones(1, 2)) == "has shape (2,), expected (1, 2)"


FNS = {
    "square": ("input[0] * input[0]", 1),
    "abs": ("input[0].abs()", 1),
    "shift": ("input[0] + 1", 1),
    "back": ("input[0] - 1", 1),
    "add": ("state[0] + input[0]", 0),
    "sqrt": ("input[0].sqrt()", 1),
}

TASK = of_scalars(FNS, "input_data['E0'].square().sum(1).sqrt()", out="[N]").model_copy(
    update={"sizes": {"D": [3, 4], "N": [2, 5]}}
)


def explained(text: str) -> list[str]:
    found = Verifier(TASK).explain_values(text)
    assert found is not None
    return found.splitlines()


def test_the_first_wrong_stream_is_shown_with_its_numbers() -> None:
    """Streams before it are named by what they are like in the reference; those after it are left out."""
    lines = explained(
        "a = step.Map(fn=fn_square).apply(E0)\nb = step.Map(fn=fn_abs).apply(a)\nc = step.Map(fn=fn_shift).apply(b)\n"
        "d = step.Accum(fn=fn_add, b=1).apply(c)\nreturn step.Map(fn=fn_sqrt).apply(d)"
    )
    assert lines[0].startswith("values at N=2, D=3, seed 0")
    assert lines[1].startswith("  a: fp32 [D, N] = Map(fn=fn_square) (line 1): as torch.")
    assert lines[2].startswith("  b: ") and ": as torch." in lines[2]
    assert lines[3] == "  c: fp32 [D, N] = Map(fn=fn_shift) (line 3): not in the reference"
    assert lines[4] == "c, torch shape (2, 3):" and [line[:4] for line in lines[5:]] == ["  0:", "  1:"]


def test_what_a_known_stream_is_made_of_is_taken_for_right() -> None:
    """A detour that comes back to the reference is no fault."""
    lines = explained(
        "a = step.Map(fn=fn_shift).apply(step.Map(fn=fn_square).apply(E0))\nb = step.Map(fn=fn_back).apply(a)\n"
        "c = step.Accum(fn=fn_add, b=1).apply(b)\nreturn step.Map(fn=fn_abs).apply(c)"
    )
    assert any("a: " in line and "not in the reference, used for what is" in line for line in lines)
    assert lines[-1] == "every stream is like something in the reference, but the results are not"


def test_other_programs_have_no_such_explanation() -> None:
    """One that passes, and one that fails before it runs."""
    right = (
        "a = step.Accum(fn=fn_add, b=1).apply(step.Map(fn=fn_square).apply(E0))\nreturn step.Map(fn=fn_sqrt).apply(a)"
    )
    assert Verifier(TASK).verify(right).passed and Verifier(TASK).explain_values(right) is None
    assert Verifier(TASK).explain_values("return E0") is None
