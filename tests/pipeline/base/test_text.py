"""What is shown: errors in one line, numbers in full, lines as they are, of one width where there is no terminal."""

import pytest

from pipeline.base.terminal import WIDTH, console, print_lines
from pipeline.base.text import MAX_END, exact_number, first_line, natural_order


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("\n first\nsecond"), "first"),
        (ValueError(""), "ValueError"),
        (ValueError("x" * 2 * MAX_END), "x" * 2 * MAX_END),
        (ValueError("a" * MAX_END + "middle" + "b" * MAX_END), f"{'a' * MAX_END} … {'b' * MAX_END}"),
    ],
    ids=["two lines", "empty", "just short enough", "too long"],
)
def test_the_first_line_stands_for_the_error_without_its_middle(error: Exception, line: str) -> None:
    """Beginning and end of a long message are kept, as the reason may stand at either."""
    assert first_line(error) == line


@pytest.mark.parametrize(
    ("value", "text"), [(1234, "1,234"), (1234.0, "1,234"), (0.375, "0.375"), (1e6 + 0.5, "1,000,000.5")]
)
def test_numbers_are_shown_in_full(value: float, text: str) -> None:
    """As costs are exact."""
    assert exact_number(value) == text


def test_names_are_sorted_by_the_numbers_in_them() -> None:
    """As people count; what has no number is in the order of its characters."""
    names = ["l3/10", "l3/2b", "l3/2", "b", "10", "9", "a02", "a2"]
    assert sorted(names, key=natural_order) == ["9", "10", "a02", "a2", "b", "l3/2", "l3/2b", "l3/10"]


def test_lines_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """Without markup, wrapping or colours."""
    line = "[bold]12 of 34[/bold] " + "word " * 60
    print_lines(console(), line, "")
    assert capsys.readouterr().out == f"{line}\n\n"


def test_each_console_has_its_stream_and_a_fixed_width(capsys: pytest.CaptureFixture[str]) -> None:
    """A file or a pipe has no width of its own."""
    print_lines(console(stderr=True), "a warning")
    assert capsys.readouterr() == ("", "a warning\n")
    assert console().width == console(stderr=True).width == WIDTH
