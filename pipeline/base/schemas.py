"""The forms of the objects that `--json` prints, of which `docs/schemas` has the JSON Schemas."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from pipeline.base.bundles import BundleOutput
from pipeline.base.language_outputs import LanguageCheckOutput, LanguageNewOutput
from pipeline.base.outputs import (
    AblateDryRunOutput,
    AblateOutput,
    BatchOutput,
    CompileOutput,
    CostOutput,
    DryRunOutput,
    ErrorOutput,
    EvaluateOutput,
    GenerateOutput,
    OptimizeOutput,
    ReportOutput,
    SweepDryRunOutput,
    SweepOutput,
    VerifyOutput,
)

OUTPUTS: Mapping[str, type[BaseModel]] = {
    "error": ErrorOutput,
    "verify": VerifyOutput,
    "verify-many": BatchOutput,
    "bundle": BundleOutput,
    "compile": CompileOutput,
    "compile-dry-run": DryRunOutput,
    "evaluate": EvaluateOutput,
    "generate": GenerateOutput,
    "ablate": AblateOutput,
    "ablate-dry-run": AblateDryRunOutput,
    "sweep": SweepOutput,
    "sweep-dry-run": SweepDryRunOutput,
    "report": ReportOutput,
    "cost": CostOutput,
    "language-check": LanguageCheckOutput,
    "language-new": LanguageNewOutput,
    "optimize": OptimizeOutput,
}
"""The form of each object, by the name of its schema file."""
