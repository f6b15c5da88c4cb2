"""Text of others made safe to show: completions, names from files, and messages of servers and authors' code."""

from __future__ import annotations

import unicodedata

MAX_END = 120
"""Characters kept of the beginning of a long error message, and of its end."""
_KEPT = "\n\t"
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Categories of characters that are not shown as they are: control characters and escapes, marks that change the
direction of text or are invisible, lone surrogates, private characters, and line separators."""


def visible(text: str, *, line: bool = False) -> str:
    r"""The text with everything that a terminal would act on written out, as `\x1b` or `\u202e`.

    Line ends and tabs are written out only if it is to be one line.
    """
    if text.isascii() and text.isprintable():
        return text
    kept = "" if line else _KEPT
    return "".join(
        char if char in kept or unicodedata.category(char) not in _UNSAFE else _escaped(char) for char in text
    )


def cell(text: str) -> str:
    """The text as a cell of a Markdown table, which shows it and nothing else."""
    shown = visible(text, line=True)
    return "".join(f"\\{char}" if char in "\\`*_{}[]()#+!|~<>" else char for char in shown).replace("<", "&lt;")


def counted(number: int, noun: str) -> str:
    """`1 task`, `26 tasks`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _escaped(char: str) -> str:
    number = ord(char)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def first_line(error: Exception) -> str:
    """An error in one line; the middle of a long one is left out."""
    line = (str(error).strip() or type(error).__name__).partition("\n")[0]
    return line if len(line) <= 2 * MAX_END else f"{line[:MAX_END]} … {line[-MAX_END:]}"


def exact_number(value: float) -> str:
    """A number in full, with separators of thousands and without needless zeros: `1,234`, `0.375`."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,}"
