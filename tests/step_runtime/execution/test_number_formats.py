"""Conversion to a format: rounding, overflow, and what is not converted without being asked to."""

from fractions import Fraction
from math import copysign, inf, isinf, isnan, nan

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from step_runtime.base.errors import TaskCodeError
from step_runtime.base.formats import FORMATS
from step_runtime.base.functions import Fn
from step_runtime.base.types import Scalar
from step_runtime.execution.applier import Applier
from step_runtime.execution.number_formats import conversion_problem, exact, same_numbers

BITS = {"fp16": (10, -14), "bf16": (7, -126), "fp8_e4m3": (3, -6), "fp8_e5m2": (2, -14)}
"""Bits of the fraction, and the least exponent of a normal number."""
SINGLE = st.floats(width=32)
HARD = [0.0, -0.0, 1.0, inf, -inf, nan, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 2.0**-25,
        3 * 2.0**-25, 2.0**-24, 65504.0, 65519.0, 65520.0, 1.0625, 1.1875, 1.125, 1.375, 2.0**-10, 2.0**-9,
        3 * 2.0**-10, 447.0, 448.0, 449.0, 464.0, 465.0, 480.0, 57344.0, 61439.0, 61440.0, 2.0**-17, 2.0**-16,
        2.0**-133, 2.0**-134, 3.3895e38, 3.4e38, 2.0**-149]  # fmt: skip


class Cast(Fn):
    """Gives its input, which is converted to the declared output."""

    def __init__(self, taken: str, given: str) -> None:
        super().__init__("Cast", Scalar(taken), Scalar(given))

    def apply(self, *args: list[Tensor]) -> list[Tensor]:  # type: ignore[override]
        """The input as it is."""
        return [args[0][0]]


def rounded(number: float, name: str) -> float:
    """A number rounded to nearest, ties to even, by exact arithmetic."""
    fraction, least = BITS[name]
    format_ = FORMATS[name]
    if isnan(number) or number == 0 or isinf(number):
        return copysign(format_.most, number) if isinf(number) and not format_.infinite else number
    exponent = max(least, _exponent(abs(number)))
    step = Fraction(2) ** (exponent - fraction)
    result = float(round(Fraction(number) / step) * step)  # Python rounds ties to even
    if abs(result) > format_.most:
        return copysign(inf if format_.infinite else format_.most, number)
    return copysign(result, number)


def _exponent(number: float) -> int:
    exponent = 0
    value = Fraction(number)
    while value >= 2:
        value, exponent = value / 2, exponent + 1
    while value < 1:
        value, exponent = value * 2, exponent - 1
    return exponent


def converted(numbers: list[float], name: str) -> Tensor:
    """What a function that is declared to give a format gives for fp32 numbers."""
    (result,) = Applier(torch.float64).map(Cast("float", name), (torch.tensor(numbers, dtype=torch.float64),), 1, {})
    return result


@pytest.mark.parametrize("name", BITS)
def test_hard_numbers_are_rounded_as_stated(name: str) -> None:
    """Ties, subnormal numbers, overflow, infinities and NaN: as exact arithmetic has it, and as `.to` does."""
    numbers = [sign * number for number in HARD for sign in (1, -1)]
    found = converted(numbers, name)
    expected = torch.tensor([rounded(number, name) for number in numbers], dtype=torch.float64)
    assert found.dtype == getattr(torch, name if name == "bool" else FORMATS[name].torch)
    assert torch.equal(exact(found).nan_to_num(nan=0.5), expected.nan_to_num(nan=0.5))
    assert same_numbers(found, torch.tensor(numbers).to(found.dtype))


@given(st.lists(SINGLE, min_size=1, max_size=20), st.sampled_from(sorted(BITS)))
def test_all_numbers_are_rounded_to_nearest_even(numbers: list[float], name: str) -> None:
    """For any fp32 numbers; rounding twice changes nothing."""
    found = converted(numbers, name)
    expected = torch.tensor([rounded(number, name) for number in numbers], dtype=torch.float64)
    assert same_numbers(exact(found), expected)
    assert same_numbers(found, exact(found).to(found.dtype))


@pytest.mark.parametrize(
    ("name", "wide", "kept"),
    [("int8", 300, 44), ("int8", -129, 127), ("int8", 128, -128), ("int32", 2**31, -(2**31)), ("int32", -5, -5)],
)
def test_integers_keep_their_low_bits(name: str, wide: int, kept: int) -> None:
    """An integer beyond the range wraps around, as in torch and in two's complement hardware."""

    class Wide(Cast):
        def apply(self, *args: list[Tensor]) -> list[Tensor]:  # type: ignore[override]
            return [torch.full((), wide, dtype=torch.int64)]

    (result,) = Applier(torch.float64).map(Wide("float", name), (torch.zeros(4),), 1, {})
    assert result.tolist() == [kept] * 4


@pytest.mark.parametrize("name", ["int8", "int32", "bool"])
def test_fractions_are_not_converted_silently(name: str) -> None:
    """A function that declares integers or truth values and gives other numbers fails, with advice."""
    with pytest.raises(TaskCodeError, match=r"floating-point numbers; .*convert them: .*\.to\(torch\.") as raised:
        converted([1.5], name)
    assert "component 0 of apply" in str(raised.value)


def test_only_asked_for_conversions_change_the_kind_of_numbers() -> None:
    """Floating-point formats take everything; integers take integers of any width; bool takes bool."""
    takes = {
        (format_.name, str(dtype).removeprefix("torch."))
        for format_ in FORMATS.values()
        for dtype in (torch.float64, torch.int64, torch.int8, torch.bool)
        if conversion_problem(torch.ones(1, dtype=dtype), format_) is None
    }
    floats = {(name, kind) for name in ("fp32", *BITS) for kind in ("float64", "int64", "int8", "bool")}
    whole = {(name, kind) for name in ("int8", "int32") for kind in ("int64", "int8")}
    assert takes == floats | whole | {("bool", "bool")}
