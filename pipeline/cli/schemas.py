"""JSON Schemas of the commands' `--json` objects and of task files, as docs/schemas/ has them."""

from __future__ import annotations

import json

from pipeline.base.outputs import OUTPUTS
from step_runtime.tasks.task import Task

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_texts() -> dict[str, str]:
    """The text of each schema file, by its name."""
    schemas = {name: model.model_json_schema(mode="serialization") for name, model in OUTPUTS.items()}
    schemas["task"] = Task.model_json_schema()
    return {
        f"{name}.schema.json": json.dumps({"$schema": _DIALECT, **schema}, indent=2, ensure_ascii=False) + "\n"
        for name, schema in schemas.items()
    }
