"""The number formats of elements: their names in task files, and their numbers; see `docs/formats.md`.

fp32 is the format of a computation: it is not rounded to, and both sides of a verification compute it in float64, so
that its rounding decides nothing. All other formats are held in torch's type of the format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Format:
    """A number format.

    Attributes:
        name: In task files.
        scalar: The name in Python: `step.Scalar(scalar)`.
        torch: Torch's name of its type.
        kind: Whether it holds floating-point numbers, integers or truth values.
        bytes: Bytes of one number.
        least: The least finite number.
        most: The largest finite number.
        infinite: Whether it holds infinities.
        rtol: The relative tolerance of comparisons; 0 for an exact one. Those of fp16 and bf16 are
            `torch.testing.assert_close`'s, those of fp8 one unit in the last place.
        atol: The absolute tolerance of comparisons: of fp8, half its least number above 0.
    """

    name: str
    scalar: str
    torch: str
    kind: Literal["float", "int", "bool"]
    bytes: int
    least: float
    most: float
    infinite: bool = False
    rtol: float = 0.0
    atol: float = 0.0

    @property
    def wide(self) -> bool:
        """Whether it is the format of computations, to which nothing is rounded."""
        return self.scalar == WIDE

    def holds(self, number: float) -> bool:
        """Whether a number, or an infinity, is within the format's range, and whole where it must be."""
        if number in (float("inf"), float("-inf")):
            return self.infinite
        return self.least <= number <= self.most and (self.kind == "float" or number == int(number))

    @property
    def range(self) -> str:
        """Its numbers in words."""
        if self.kind == "bool":
            return "0 and 1"
        if self.kind == "int":
            return f"whole numbers from {self.least:.0f} to {self.most:.0f}"
        return f"numbers from {self.least:g} to {self.most:g}{', -inf and inf' if self.infinite else ''}"


WIDE = "float"
"""The Python name of fp32."""


def _float(name: str, torch: str, size: int, most: float, tolerances: tuple[float, float], *, infinite: bool) -> Format:
    return Format(name, name, torch, "float", size, -most, most, infinite, *tolerances)


_FP32 = Format("fp32", WIDE, "float32", "float", 4, -(2.0**128 - 2.0**104), 2.0**128 - 2.0**104, True, 1.3e-6, 1e-5)

FORMATS: Mapping[str, Format] = {
    format_.scalar: format_
    for format_ in (
        _FP32,
        _float("fp16", "float16", 2, 65504.0, (1e-3, 1e-5), infinite=True),
        _float("bf16", "bfloat16", 2, 2.0**128 - 2.0**120, (1.6e-2, 1e-5), infinite=True),
        _float("fp8_e4m3", "float8_e4m3fn", 1, 448.0, (2.0**-3, 2.0**-10), infinite=False),
        _float("fp8_e5m2", "float8_e5m2", 1, 57344.0, (2.0**-2, 2.0**-17), infinite=True),
        Format("int8", "int8", "int8", "int", 1, -128, 127),
        Format("int32", "int32", "int32", "int", 4, -(2**31), 2**31 - 1),
        Format("bool", "bool", "bool", "bool", 1, 0, 1),
    )
}
"""All formats by their Python name."""

SCALARS: Mapping[str, str] = {format_.name: scalar for scalar, format_ in FORMATS.items()}
"""The Python name of each format by the name in task files."""

_OTHER_NAMES: Mapping[str, str] = {
    "float": "fp32", "float32": "fp32", "f32": "fp32", "half": "fp16", "float16": "fp16", "f16": "fp16",
    "bfloat16": "bf16", "fp8": "fp8_e4m3 or fp8_e5m2", "float8": "fp8_e4m3 or fp8_e5m2",
    "float8_e4m3fn": "fp8_e4m3", "e4m3": "fp8_e4m3", "float8_e5m2": "fp8_e5m2", "e5m2": "fp8_e5m2",
    "int": "int32", "i8": "int8", "i32": "int32", "boolean": "bool",
}  # fmt: skip


def suggestion(word: str) -> str | None:
    """The name here of a format with another name elsewhere; None if it is not known."""
    return _OTHER_NAMES.get(word)
