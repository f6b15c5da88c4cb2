"""Pictures of learning curves against sampling alone, from the files of `benchmarks.learning_curve`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 560, 260, 48, 16, 44
COLORS = {"learning": "#3f51b5", "sampling": "#8d6e63"}


def files(folder: Path) -> dict[Path, str]:
    """The pictures by path: `NAME.svg` for each `NAME.json`."""
    made = {}
    for path in sorted(folder.glob("*.json")):
        made[path.with_suffix(".svg")] = picture(json.loads(path.read_text(encoding="utf-8")))
    return made


def picture(curves: Mapping[str, Any]) -> str:
    """Solved tasks over samples: the run that learns, labelled by iteration, and the one that only samples."""
    most = max(spent for name in COLORS for spent, _ in curves[name])
    inner = (WIDTH - LEFT - 16, HEIGHT - TOP - BOTTOM)

    def at(point: Sequence[float]) -> tuple[float, float]:
        return LEFT + inner[0] * point[0] / most, TOP + inner[1] * (1 - point[1] / curves["tasks"])

    names = {"learning": f"--optimizer adaptive --selection {curves['selection']}", "sampling": "--optimizer none"}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        ' font-size="11">',
        "<title>Solved tasks over samples: learning against sampling alone</title>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for solved in range(0, curves["tasks"] + 1, 5):
        x, y = at((0, solved))
        parts += [
            f'<line x1="{x:.1f}" x2="{WIDTH - 16}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>',
            f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{solved}</text>',
        ]
    for spent in range(0, int(most) + 1, _step(most)):
        x, y = at((spent, 0))
        parts.append(f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{spent}</text>')
    for row, (name, color) in enumerate(COLORS.items()):
        points = [at(point) for point in curves[name]]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points[1:]]
        y = HEIGHT - BOTTOM - 34 + 16 * row
        parts.append(f'<text x="{WIDTH - 24}" y="{y}" text-anchor="end" fill="{color}">{names[name]}</text>')
    parts += [
        f'<text x="{LEFT + inner[0] / 2:.1f}" y="{HEIGHT - 8}" text-anchor="middle">samples, of all tasks</text>',
        f'<text x="12" y="{TOP + inner[1] / 2:.1f}" text-anchor="middle" transform="rotate(-90 12'
        f' {TOP + inner[1] / 2:.1f})">solved tasks of {curves["tasks"]}</text>',
    ]
    return "\n".join([*parts, "</svg>", ""])


def _step(most: float) -> int:
    """A round distance between marks, for about six of them."""
    return next(step for step in (10, 20, 50, 100, 200, 500, 1000, 10**9) if most / step <= 7)
