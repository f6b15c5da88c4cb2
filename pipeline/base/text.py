"""Foreign text made safe to show: completions, names from files, and messages of servers and authors' code."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote

MAX_END = 120
"""Characters kept of the beginning of a long error message, and of its end."""
_LONGEST_LINE = 300
_KEPT = "\n\t"
_LONGEST_PART = 240
"""Bytes of a part of a path, without its suffix."""
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Categories of characters that are not shown as they are: control characters and escapes, marks that change the
direction of text or are invisible, lone surrogates, private characters, and line separators."""


def visible(text: str, *, line: bool = False) -> str:
    r"""The text with everything that a terminal would act on written out, as `\x1b` or `\u202e`.

    Line ends and tabs are written out only if it is to be one line.
    """
    kept = "" if line else _KEPT
    if _is_printable(text, kept):
        return text
    return "".join(char if char in kept or not _is_unsafe(char) else _escaped(char) for char in text)


def visible_json(content: Any, indent: int | None = None) -> str:
    """JSON in which everything that `visible` writes out is written as JSON's own escapes, so that no value changes."""
    text = json.dumps(content, indent=indent, ensure_ascii=False)
    if _is_printable(text, "\n"):
        return text
    return "".join(json.dumps(char)[1:-1] if char != "\n" and _is_unsafe(char) else char for char in text)


def path_of(name: str) -> str:
    """A relative path for any name, of which `name_of` makes the name again; most names are their own paths.

    What a store of artifacts reads otherwise, or a terminal would act on, is written as `=23`, by the bytes in UTF-8;
    an empty part as `=_`; and a part that is too long for a file system is continued below `=/`.
    """
    return "/".join(map(_path_part, name.split("/")))


def _path_part(part: str) -> str:
    if not part.strip("."):
        return part.replace(".", "=2E") or "=_"
    text = "".join(
        quote(char, errors="surrogatepass", safe="").replace("%", "=") if char in "#%=?\\" or _is_unsafe(char) else char
        for char in part
    )
    if len(text.encode()) <= _LONGEST_PART:
        return text
    length = _LONGEST_PART // 4  # characters of up to four bytes
    return "=/".join(text[start : start + length] for start in range(0, len(text), length))


def name_of(path: str) -> str:
    """The name whose path this is; see `path_of`."""
    whole = path.replace("=/", "").replace("=_", "")
    return re.sub("(?:=[0-9A-F]{2})+", lambda found: unquote(found[0].replace("=", "%"), errors="surrogatepass"), whole)


def cell(text: str) -> str:
    """The text as a cell of a Markdown table, which shows it and nothing else."""
    shown = visible(text, line=True)
    return "".join(f"\\{char}" if char in "\\`*_{}[]()#+!|~<>" else char for char in shown).replace("<", "&lt;")


def unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, for `json.loads`; raises `ValueError` for a second key, of which other readers see another."""
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for number, (key, _) in enumerate(pairs) if key in dict(pairs[:number]))
        raise ValueError(f"the key {visible(twice[:80], line=True)!r} occurs twice in an object")
    return found


def counted(number: int, noun: str) -> str:
    """`1 task`, `26 tasks`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _is_printable(text: str, kept: str) -> bool:
    """Whether nothing in a text is unsafe, with few looks: Python's printable characters are none of these."""
    for char in kept:
        text = text.replace(char, "")
    return text.isprintable()


def _is_unsafe(char: str) -> bool:
    return unicodedata.category(char) in _UNSAFE


def _escaped(char: str) -> str:
    number = ord(char)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def first_line(error: Exception) -> str:
    """An error in one line; the middle of a long one is left out."""
    line = (str(error).strip() or type(error).__name__).partition("\n")[0]
    return line if len(line) <= 2 * MAX_END else f"{line[:MAX_END]} … {line[-MAX_END:]}"


def one_line(text: str) -> str:
    """A text of several lines in one that is safe to show, cut off where it is long."""
    line = visible(" ".join(text.split()), line=True)
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"


def natural_order(text: str) -> tuple[tuple[str, int, str], ...]:
    """A key that sorts names as people do, numbers by their value: `l3/2` before `l3/10`."""
    parts = re.split("([0-9]+)", text)
    return tuple((word, int(digits or -1), digits) for word, digits in zip(parts[::2], [*parts[1::2], ""], strict=True))


def exact_number(value: float) -> str:
    """A number in full, with separators of thousands and without needless zeros: `1,234`, `0.375`."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,}"
