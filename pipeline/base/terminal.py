"""The output of commands: plain text without secrets, even if it quotes foreign text."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from pipeline.base.redaction import redacted
from pipeline.base.text import visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table

WIDTH = 120
"""Characters per line where there is no terminal."""


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
