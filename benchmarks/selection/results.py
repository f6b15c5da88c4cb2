"""The file of results: JSON lines, the settings first, then a line for each reader, seed and fold once it is done."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.selection.measuring import Cell


class SettingsDiffer(Exception):
    """The file holds results of other settings."""


class Results:
    """Results in a file, to which finished folds are appended.

    Args:
        path: The file; made if absent.
        settings: Of the experiment; readers and seeds may be added later and are no part of them.

    Raises:
        SettingsDiffer: The file exists with other settings, or is not such a file.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self._path = path
        self.done: set[tuple[str, int, int]] = set()
        lines = _complete_lines(path)
        first = lines.pop(0) if lines else None
        if first is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(settings) + "\n", encoding="utf-8")
        elif first != settings:
            raise SettingsDiffer(f"{path}: line 1: expected the settings {json.dumps(settings)}; give another file")
        self.done = {(line["reader"], line["seed"], line["fold"]) for line in lines}

    def add(self, reader: str, seed: int, fold: int, experience: int, cells: Mapping[str, Mapping[str, Cell]]) -> None:
        """Appends a fold."""
        line = {
            "reader": reader,
            "seed": seed,
            "fold": fold,
            "experience": experience,
            "tasks": list(next(iter(cells.values()))),
            "correct": {name: [cell.correct for cell in own.values()] for name, own in cells.items()},
        }
        for field in ("tokens", "shown", "milliseconds"):
            means = {
                name: statistics.fmean(getattr(cell, field) for cell in own.values()) for name, own in cells.items()
            }
            line[field] = {name: round(mean, 3) for name, mean in means.items()}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _complete_lines(path: Path) -> list[Any]:
    """The lines of a file; a last one that is cut short, as by a killed process, is removed."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    try:
        return [json.loads(line) for line in whole.splitlines()]
    except json.JSONDecodeError as error:
        raise SettingsDiffer(f"{path}: expected JSON lines that this command wrote: {error}") from None
