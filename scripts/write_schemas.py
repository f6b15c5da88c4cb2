"""Writes docs/schemas/: the JSON Schemas of the commands' `--json` objects and of task files."""

from __future__ import annotations

import json
from pathlib import Path

from pipeline.base.outputs import OUTPUTS
from step_runtime.tasks.task import Task

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "schemas"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_texts() -> dict[str, str]:
    """The text of each schema file, by its name."""
    schemas = {name: model.model_json_schema(mode="serialization") for name, model in OUTPUTS.items()}
    schemas["task"] = Task.model_json_schema()
    return {
        f"{name}.schema.json": json.dumps({"$schema": _DIALECT, **schema}, indent=2, ensure_ascii=False) + "\n"
        for name, schema in schemas.items()
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in schema_texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
