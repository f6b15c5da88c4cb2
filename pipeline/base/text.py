"""Foreign text made safe to show: completions, names from files, and messages of servers and authors' code."""

from __future__ import annotations

import base64
import functools
import html
import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, TextIO, cast
from urllib.parse import quote, quote_plus, unquote, unquote_plus

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table

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


# --- secrets ----------------------------------------------------------------------------------------------------------
# A secret is the value of an environment variable whose name says so, user and password of an address, and a password,
# key or token in its query.

MASK = "[redacted]"

_SECRET_NAME = re.compile(
    r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|(?<![A-Z])(PAT|AUTH))(?=S?(_|\d|$))", re.IGNORECASE
)
_LEAST = 6
"""Characters of a secret: shorter ones, such as `none`, are words that texts are full of."""
# As urlsplit, up to the last @ before the path: a password may hold one.
_CREDENTIALS = re.compile(r"(?<=://)[^/?#\s\"'<>]*@")
_ADDRESS_PARTS = re.compile(r"://([^/?#\s]*)@")
_QUERY = re.compile(
    r"([?&](?:[\w.-]*[_.-])?(?:api|access|auth)?(?:key|token|secret|password|passwd|pwd|credentials?|signature)=)"
    r"([^&#\s\"'<>]+)",
    re.IGNORECASE,
)
_told: set[str] = set()


def hide(address: str | None) -> None:
    """Counts the secrets of an address, as they are and decoded, among the secrets from here on."""
    if "://" not in (address or ""):
        return
    _told.update(text for _, part in _QUERY.findall(address or "") for text in _forms(part))
    for part in _ADDRESS_PARTS.findall(address or ""):
        for piece in (part, *part.split(":", 1)):
            _told.update(_forms(piece))


def _forms(piece: str) -> list[str]:
    """A part of an address as it is and decoded, if it is long enough to be a secret."""
    return [text for text in (piece, unquote(piece), unquote_plus(piece)) if len(text) >= _LEAST]


def secret_names() -> list[str]:
    """The environment variables whose names say that they hold a secret."""
    return [name for name in os.environ if _is_secret(name)]


@functools.lru_cache(maxsize=1000)
def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def without_secrets(address: str) -> str:
    """An address without user, password, and secrets in its query."""
    return _QUERY.sub(r"\1", _CREDENTIALS.sub("", address)) if "://" in address else address


def secrets() -> list[str]:
    """The secrets, the longest first: one may be part of another."""
    variables = [*os.environ.items()]
    named = {value for name, value in variables if _is_secret(name)}
    long = {text for value in named for text in (value, value.strip()) if len(text) >= _LEAST}
    own = {text for text in long if not (text.startswith("/") and os.path.exists(text))}  # noqa: PTH110
    for _, value in variables:
        hide(value)
    written = {form for text in own | _told for form in _written(text)}
    return sorted(written, key=len, reverse=True)


@functools.cache
def _written(secret: str) -> frozenset[str]:
    """A secret as it is, and as it is written in JSON, Python, HTML, an address, and Base64, as `Basic` logins are."""
    quoted = json.dumps(secret)[1:-1]
    inner = json.dumps(quoted)[1:-1], repr(secret)[1:-1], html.escape(secret)
    encoded = base64.b64encode(secret.encode("utf-8", "surrogateescape")).decode()
    addresses = quote(secret, safe=""), quote(secret), quote_plus(secret)
    return frozenset({secret, quoted, *inner, encoded, encoded.rstrip("="), *addresses})


def redacted(text: str) -> str:
    """The text without secrets."""
    for secret in secrets():
        if secret in text:
            text = text.replace(secret, MASK)
    if "://" not in text:
        return text
    return _QUERY.sub(rf"\1{MASK}", _CREDENTIALS.sub(f"{MASK}@", text))


def redacted_value(value: Any) -> Any:
    """The value, such as what JSON holds, without secrets in any of its texts."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {redacted_value(key): redacted_value(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return type(value)(map(redacted_value, value)) if isinstance(value, list | tuple) else value
    return value


# --- the output of commands -------------------------------------------------------------------------------------------

WIDTH = 120
"""Characters per line if stdout is not a terminal."""


class SafeStream:
    """A text stream over a `raw` one, to which nothing goes that a terminal would act on, nor any secret."""

    def __init__(self, raw: IO[str]) -> None:
        self.raw = raw

    @classmethod
    def over(cls, stream: TextIO) -> TextIO:
        """A safe stream that writes to another one; the same, if that is safe already."""
        return stream if isinstance(stream, cls) else cast(TextIO, cls(stream))

    def write(self, text: str) -> int:
        """Writes the text's safe form."""
        self.raw.write(visible(redacted(text)))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes the lines' safe form."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def print_lines(console: Console, *lines: str) -> None:
    """Prints lines unchanged: without markup, highlighting or wrapping."""
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def figures_table(*headings: str, texts: int = 1, title: str | None = None) -> Table:
    """An empty table whose first columns hold `texts`, and the others numbers."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < texts else "right")
    return table


def console(*, stderr: bool = False) -> Console:
    """A Rich console whose own colours and cursor moves pass, and no others.

    Its width is the terminal's, or `WIDTH` characters where there is none.
    """
    from rich.console import Console
    from rich.segment import Segment
    from rich.text import Text

    class SafeConsole(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            """Removes secrets before a text is divided into lines and styles, where they could not be recognized."""
            if isinstance(renderable, str):
                renderable = redacted(renderable)
            elif isinstance(renderable, Text) and (plain := redacted(renderable.plain)) != renderable.plain:
                renderable = Text(plain, renderable.style, justify=renderable.justify, overflow=renderable.overflow)
            return super().render(renderable, options)

        def _render_buffer(self, buffer: Iterable[Segment]) -> str:
            """What is about to be written, from text with styles and from control codes of Rich's own."""
            safe = (part if part.control else Segment(visible(redacted(part.text)), part.style) for part in buffer)
            return super()._render_buffer(safe)

    stream = sys.stderr if stderr else sys.stdout
    raw = stream.raw if isinstance(stream, SafeStream) else stream
    return SafeConsole(file=raw, width=None if stream.isatty() else WIDTH, markup=False, emoji=False)
