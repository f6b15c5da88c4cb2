"""SVG pictures of streams: what runs into a primitive and what runs out of it, token by token.

Sizes are computed from the number of characters, so that a picture is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tests.support.tokens import Stop, Tokens, render

FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
CHARACTER, HEIGHT, GAP, ROW, LABEL, MARGIN = 8.4, 30, 6, 62, 18, 16
VALUE_FILL, STOP_FILL, INK, LINE = "#cfe6f5", "#fde3b8", "#1b1f24", "#7a8691"


@dataclass(frozen=True)
class Row:
    """One stream: its name with its type, and its tokens."""

    label: str
    tokens: Tokens


def draw(primitive: str, inputs: Sequence[Row], outputs: Sequence[Row]) -> str:
    """A picture of the streams before and after a primitive.

    Args:
        primitive: The primitive with its configuration, such as `Accum(fn=add, b=1)`.
        inputs: The streams that it consumes.
        outputs: The streams that it produces.

    Returns:
        The SVG. The first token is on the left; values are blue, stop tokens orange.
    """
    name = f"{primitive} turns " + "; ".join(_described(row) for row in inputs) + " into "
    name += "; ".join(_described(row) for row in outputs)
    rows, parts = [*inputs, *outputs], []
    middle = MARGIN + len(inputs) * ROW
    for number, row in enumerate(rows):
        parts += _row(row, MARGIN + number * ROW + (46 if number >= len(inputs) else 0))
    width = max([_width(row) for row in rows] + [len(primitive) * CHARACTER + 70]) + 2 * MARGIN
    height = 2 * MARGIN + len(rows) * ROW + 46 - (ROW - HEIGHT - LABEL)
    arrow = (
        f'<path d="M {MARGIN + 14} {middle - 8} v 34 m -6 -8 l 6 8 l 6 -8" fill="none" stroke="{INK}"/>'
        f'<text x="{MARGIN + 34}" y="{middle + 14}" font-weight="bold">{escape(primitive)}</text>'
    )
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}" font-size="14" fill="{INK}">',
        f"<title>{escape(name)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        *parts,
        arrow,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _row(row: Row, top: float) -> list[str]:
    parts = [f'<text x="{MARGIN}" y="{top + 10}" font-size="12">{escape(row.label)}</text>']
    left, y = float(MARGIN), top + LABEL
    for token in row.tokens:
        text, stop = render([token]), isinstance(token, Stop)
        width = len(text) * CHARACTER + 16
        parts.append(
            f'<rect x="{left:g}" y="{y}" width="{width:g}" height="{HEIGHT}" rx="{HEIGHT // 2 if stop else 4}"'
            f' fill="{STOP_FILL if stop else VALUE_FILL}" stroke="{LINE}"/>'
            f'<text x="{left + width / 2:g}" y="{y + 20}" text-anchor="middle">{escape(text)}</text>'
        )
        left += width + GAP
    if not row.tokens:
        parts.append(f'<text x="{MARGIN}" y="{y + 20}" font-style="italic">no token</text>')
    return parts


def _width(row: Row) -> float:
    tokens = sum(len(render([token])) * CHARACTER + 16 + GAP for token in row.tokens)
    return max(tokens, len(row.label) * 7.4)


def _described(row: Row) -> str:
    return f"{row.label}: {render(row.tokens) or 'no token'}"
