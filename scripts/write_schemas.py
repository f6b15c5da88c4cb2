"""Writes docs/schemas/: the JSON Schemas of the commands' `--json` objects and of task files."""

from __future__ import annotations

from pathlib import Path

from pipeline.cli.schemas import schema_texts

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "schemas"

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in schema_texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
