"""The figure of the experiment: differences with their intervals, as SVG."""

from __future__ import annotations

from collections.abc import Mapping

ROW, LEFT, WIDTH = 18, 190, 420


def forest(effects: Mapping[tuple[str, str], tuple[float, float, float]]) -> str:
    """A row for each reader and arm: the difference and its 95 % interval."""
    reach = max((max(abs(low), abs(high)) for _, low, high in effects.values()), default=0.0) or 1.0

    def x(value: float) -> float:
        return LEFT + WIDTH / 2 * (1 + value / reach)

    height = ROW * (len(effects) + 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}" font-family="sans-serif"'
        ' font-size="12">',
        "<title>Differences of pass@1 to adaptive, with 95 % intervals</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<line x1="{x(0):.1f}" x2="{x(0):.1f}" y1="4" y2="{height - ROW - 4}" stroke="gray"/>',
    ]
    for row, ((reader, arm), (mean, low, high)) in enumerate(effects.items(), start=1):
        y = ROW * row
        parts += [
            f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{reader}: {arm.partition("@")[0]}</text>',
            f'<line x1="{x(low):.1f}" x2="{x(high):.1f}" y1="{y}" y2="{y}" stroke="#3f51b5" stroke-width="2"/>',
            f'<circle cx="{x(mean):.1f}" cy="{y}" r="3.5" fill="#3f51b5"/>',
        ]
    for value in (-reach, 0.0, reach):
        parts.append(f'<text x="{x(value):.1f}" y="{height - 6}" text-anchor="middle">{value:+.3f}</text>')
    return "\n".join([*parts, "</svg>", ""])
