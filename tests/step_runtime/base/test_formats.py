"""The table of number formats agrees with torch's own types."""

from math import inf

import pytest
import torch

from step_runtime.base.formats import FORMATS, SCALARS, suggestion

FLOATS = [format_ for format_ in FORMATS.values() if format_.kind == "float"]
INTEGERS = [format_ for format_ in FORMATS.values() if format_.kind == "int"]


def test_every_format_is_a_type_of_torch_with_its_bytes() -> None:
    """The name leads to a torch type of the stated size."""
    for format_ in FORMATS.values():
        assert getattr(torch, format_.torch).itemsize == format_.bytes
        assert FORMATS[SCALARS[format_.name]] is format_


@pytest.mark.parametrize("format_", FLOATS, ids=lambda format_: format_.name)
def test_the_range_of_floating_point_formats_is_that_of_torch(format_) -> None:  # type: ignore[no-untyped-def]
    """The largest finite number is torch's; whether infinities are held is what torch's `isinf` says."""
    dtype = getattr(torch, format_.torch)
    assert (format_.least, format_.most) == (torch.finfo(dtype).min, torch.finfo(dtype).max)
    held = torch.tensor([inf]).to(dtype).to(torch.float64).isinf().item()
    assert format_.infinite == held == format_.holds(-inf)


@pytest.mark.parametrize("format_", INTEGERS, ids=lambda format_: format_.name)
def test_the_range_of_integers_is_that_of_torch(format_) -> None:  # type: ignore[no-untyped-def]
    """Both ends are held, and neither a number beyond them, nor a fraction, nor an infinity."""
    info = torch.iinfo(getattr(torch, format_.torch))
    assert (format_.least, format_.most) == (info.min, info.max)
    assert format_.holds(info.min) and format_.holds(info.max)
    assert not any(map(format_.holds, (info.min - 1, info.max + 1, 0.5, inf)))


def test_truth_values_are_0_and_1() -> None:
    """Nothing else is an initial state of a bool."""
    assert [number for number in (-1, 0, 0.5, 1, 2) if FORMATS["bool"].holds(number)] == [0, 1]


def test_ranges_read_as_text() -> None:
    """As messages state them."""
    assert FORMATS["int8"].range == "whole numbers from -128 to 127"
    assert FORMATS["bool"].range == "0 and 1"
    assert FORMATS["fp8_e4m3"].range == "numbers from -448 to 448"
    assert FORMATS["fp16"].range == "numbers from -65504 to 65504, -inf and inf"


def test_names_from_elsewhere_lead_to_formats() -> None:
    """Torch's names and common abbreviations are explained; a format's own name and a dim's are not."""
    for format_ in FORMATS.values():
        assert suggestion(format_.name) is None
        if format_.torch != format_.name:
            assert suggestion(format_.torch) == format_.name
    assert suggestion("fp8") == "fp8_e4m3 or fp8_e5m2"
    assert suggestion("M") is None
