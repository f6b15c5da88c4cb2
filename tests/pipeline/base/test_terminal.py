"""Consoles for stdout and stderr: lines as they are, of one width where there is no terminal."""

import pytest

from pipeline.base.terminal import WIDTH, console, print_lines


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
