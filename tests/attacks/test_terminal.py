"""Text of others holds these:

- terminal escapes, control characters and marks that turn text around never reach a terminal as they are;
- Rich's own colours do, and its markup is off;
- names are cells of a Markdown table and nothing else.
"""

import io
from pathlib import Path

import pytest

from pipeline import verify
from pipeline.base.errors import UsageError, print_message, run_command
from pipeline.base.text import SafeStream, cell, console, visible
from tests.support.scripted_runs import RIGHT, TASK

ATTACKS = {
    "a colour": ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
    "clearing the screen": ("\x1b[2J\x1b[H", r"\x1b[2J\x1b[H"),
    "a title": ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
    "a link": ("\x1b]8;;http://x\x1b\\y", "\\x1b]8;;http://x\\x1b\\y"),
    "an escape of eight bits": ("\x9b31m", r"\x9b31m"),
    "a carriage return": ("good\rbad", r"good\x0dbad"),
    "a backspace": ("abc\b\b", r"abc\x08\x08"),
    "a bell": ("\a", r"\x07"),
    "NUL": ("\0", r"\x00"),
    "DEL": ("\x7f", r"\x7f"),
    "right to left": ("a\u202egnp.exe", r"a\u202egnp.exe"),
    "isolates": ("\u2066x\u2069", r"\u2066x\u2069"),
    "a zero-width space": ("a\u200bb", r"a\u200bb"),
    "a byte order mark": ("\ufeffx", r"\ufeffx"),
    "a line separator": ("a\u2028b", r"a\u2028b"),
    "a lone surrogate": ("\ud800", r"\ud800"),
    "a tag": ("\U000e0041", r"\U000e0041"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_a_terminal_would_act_on_is_written_out(attack: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Printed, reported, warned of, and by Rich; lines, tabs and letters of any alphabet stay."""
    raw, shown = ATTACKS[attack]
    assert visible(raw) == shown
    assert visible("one\ttwo\nжив 音 🎵 é") == "one\ttwo\nжив 音 🎵 é"
    assert visible("a\nb\t", line=True) == r"a\x0ab\x09"

    def main(_: object) -> int:
        print(raw)
        print_message("x", raw)
        console().print(raw, soft_wrap=True)
        raise UsageError(raw)

    assert run_command("x", main) == 2
    out, err = capsys.readouterr()
    assert raw not in out + err
    assert (out + err).count(shown) >= 3  # of what Rich removes by itself nothing is left to show


def test_rich_s_own_colours_pass_and_markup_is_off(capsys: pytest.CaptureFixture[str]) -> None:
    """On a terminal: styles are Rich's, what a text brings along is text."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", terminal := Terminal())
        patch.setenv("TERM", "xterm-256color")
        patch.delenv("NO_COLOR", raising=False)
        patch.setattr("sys.stdout", SafeStream(terminal))
        console().print("[red]x[/red] [link=http://x]y[/link] :smile: \x1b[31mz", style="bold", highlight=False)
    reported = terminal.getvalue()
    assert "[red]x[/red] [link=http://x]y[/link] :smile: \\x1b[31mz" in reported
    assert reported.startswith("\x1b[1m")
    assert "\x1b[31m" not in reported


CELLS = {
    "a column": ("a | b", r"a \| b"),
    "a row": ("a\n| b |", r"a\\x0a\| b \|"),
    "a link": ("[x](http://y)", r"\[x\]\(http://y\)"),
    "an image": ("![x](y)", r"\!\[x\]\(y\)"),
    "HTML": ("<script>x</script>", r"\&lt;script\>x\&lt;/script\>"),
    "code": ("`x`", r"\`x\`"),
    "emphasis": ("**x** _y_", r"\*\*x\*\* \_y\_"),
}


@pytest.mark.parametrize("attack", CELLS)
def test_a_cell_shows_its_text(attack: str) -> None:
    """And does nothing else; a plain name stays plain."""
    text, expected = CELLS[attack]
    assert cell(text) == expected
    assert cell("gemm/1") == "gemm/1"


@pytest.mark.parametrize("attack", ["a colour", "a title", "right to left", "a carriage return"])
def test_names_and_programs_reach_the_terminal_written_out(
    attack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a task file and of a program that fails; the control passes."""
    raw, _ = ATTACKS[attack]
    path = tmp_path / f"evil{raw.replace('/', '')}.yaml"
    path.write_text(TASK)
    program = tmp_path / "program.txt"
    program.write_text(f"# {raw}\nreturn {raw}")
    assert run_command(verify.NAME, verify.main, [str(path), str(program)]) == 1
    program.write_text(RIGHT)
    assert run_command(verify.NAME, verify.main, [str(path), str(program)]) == 0
    out, err = capsys.readouterr()
    assert raw not in out + err
    assert "passed" in out
