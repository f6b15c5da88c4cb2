"""The forms of the objects that scripts read from `--json`, of which `docs/schemas` has the JSON Schemas.

Other commands print an object whose form follows their page, without a schema.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from pipeline.base.outputs import (
    BatchOutput,
    CompileOutput,
    CostOutput,
    ErrorOutput,
    EvaluateOutput,
    GenerateOutput,
    VerifyOutput,
)

OUTPUTS: Mapping[str, type[BaseModel]] = {
    "error": ErrorOutput,
    "verify": VerifyOutput,
    "verify-many": BatchOutput,
    "compile": CompileOutput,
    "evaluate": EvaluateOutput,
    "generate": GenerateOutput,
    "cost": CostOutput,
}
"""The form of each object, by the name of its schema file."""
