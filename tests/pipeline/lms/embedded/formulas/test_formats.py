"""Conversions leave a trace where they may change a number."""

from __future__ import annotations

import pytest

from tests.support.formulas import fingerprints, same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x.round().long()", "x.round()"),
        ("(x.floor() + 2 * y.round()).int()", "x.floor() + 2 * y.round()"),
        ("(x > y).sum(1).long()", "(x > y).float().sum(1)"),
        ("x.argmax(1).int()", "x.argmax(1)"),
        ("(2 * x).int()", "(2 * x).to(torch.int64)"),
        ("(2 * x).int().long()", "(2 * x).int()"),
        ("x.round().clamp(-128, 127).to(torch.int8)", "x.round().clamp(-128, 127)"),
        ("x.round().clamp(min=-7).clamp(max=7).to(torch.int8).float()", "x.round().clamp(-7, 7)"),
        ("x.long()", "x"),
        ("x.to(torch.bfloat16)", "x"),
    ],
)
def test_a_conversion_leaves_no_trace_of_what_its_format_holds(one: str, other: str) -> None:
    """An input is taken to be what it is converted to, and narrow floating-point numbers to be wide."""
    assert same(one, other) and same(one, other, 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("(2 * x).long()", "2 * x"),
        ("(x / y).int()", "x / y"),
        ("x.round().to(torch.int8)", "x.round()"),
        ("x.round().clamp(0, 255).to(torch.int8)", "x.round().clamp(0, 255)"),
        ("x.clamp(-7, 7).to(torch.int8)", "x.clamp(-7, 7)"),
        ("(x * 0.5).to(torch.float8_e4m3fn)", "x * 0.5"),
    ],
)
def test_a_conversion_leaves_a_trace_where_it_may_change_a_number(one: str, other: str) -> None:
    """It cuts a fraction off, or what is beyond a range."""
    assert not same(one, other)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("h * 2.0", "(h.float() * 2.0).to(torch.float16)", True),
        ("-h.to(torch.float16)", "-h", True),
        ("h.float() + x", "h + x", True),
        ("(h - h.amax(1, keepdim=True)).float()", "h.float() - h.float().amax(1, keepdim=True)", False),
        ("h.to(torch.bfloat16).float()", "h.float()", False),
        ("(h.float() * 2.0).half()", "h.float() * 2.0", False),
    ],
)
def test_a_task_that_names_formats_rounds(one: str, other: str, equal: bool) -> None:
    """What is computed of numbers of a narrow format is of this format."""
    first, second = (fingerprints(code, rounds=True) for code in (one, other))
    assert bool((first == second).all()) == equal


def test_a_guard_against_overflow_leaves_a_trace_in_other_worlds() -> None:
    """Where only a part of a quotient has it, it is no guard."""
    one = "torch.exp(x - x.amax(1, keepdim=True)) / torch.exp(x).sum(1, keepdim=True)"
    assert same(one, "torch.softmax(x, 1)")
    assert not same(one, "torch.softmax(x, 1)", 1)
