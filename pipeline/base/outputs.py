"""What `--json` prints: one object on stdout, of the schema version and the form given here (docs/schemas).

    Output
    ├── ErrorOutput       any command that ends without a result: exit codes 2, 3 and 130
    ├── VerifyOutput      one program's verdict
    ├── BatchOutput       the verdicts on several programs
    ├── CompileOutput, EvaluateOutput, GenerateOutput, AblateOutput, ReportOutput

Fields may be added within a version; a field that is removed, renamed or changed in meaning gives a new version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA: Literal[1] = 1
"""The version of the JSON objects."""

Severity = Literal["error", "warning"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Output(_Part):
    """The base of all objects: the schema version, and the command without its package."""

    schema_version: Literal[1] = Field(SCHEMA, alias="schema", description="The version of this object's form.")
    command: str = Field(description="The command that printed the object, such as `verify`.")

    def text(self) -> str:
        """The object as one line of JSON."""
        return json.dumps(self.model_dump(mode="json", by_alias=True))


class Failure(_Part):
    """Why a command ended without a result."""

    kind: Literal["usage", "lm", "record", "interrupted"]
    exit_code: Literal[2, 3, 130]
    message: str


class ErrorOutput(Output):
    """A command that ended without a result; its exit code is 2, 3 or 130."""

    error: Failure


class Finding(_Part):
    """An error or a warning, with its place; lines and columns count from 1, and the end column is exclusive."""

    severity: Severity
    stage: str = Field(description="The stage of verification, `task` for the task itself.")
    code: str = Field(description="A short stable name, such as `zip-shape`.")
    message: str
    file: str | None = Field(None, description="The file of the place; null for standard input.")
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    details: tuple[str, ...] = ()
    hint: str | None = None


class ProgramVerdict(_Part):
    """The verdict on one program."""

    task: str = Field(description="The task's name.")
    task_file: str
    program: str | None = Field(description="The program's file; null for standard input.")
    passed: bool
    stage: str | None = Field(description="The first stage that failed; null for a program that passes.")
    diagnostics: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    error: str | None = Field(None, description="Why the task or the program could not be used, if so.")
    values: str | None = Field(None, description="With `--values`, where the values part from the reference's.")
    seconds: float = Field(0.0, description="Processor time of the verification, in seconds.")


class VerifyOutput(ProgramVerdict, Output):
    """The verdict of `pipeline.verify TASK [IMPL]`."""

    command: Literal["verify"] = "verify"
    cost: Mapping[str, Any] | None = Field(None, description="With `--cost`, what a program that passes costs.")


class BatchSummary(_Part):
    """Counts of programs, and of all warnings; `seconds` is wall time."""

    programs: int
    passed: int
    failed: int
    unusable: int
    warnings: int
    seconds: float


class BatchOutput(Output):
    """The verdicts of `pipeline.verify` on several programs, in the order of the command line."""

    command: Literal["verify"] = "verify"
    passed: bool
    programs: tuple[ProgramVerdict, ...]
    summary: BatchSummary


class TokenFigures(_Part):
    """Tokens of all requests."""

    prompt: int
    completion: int
    cached: int


class CompileOutput(Output):
    """The result of `pipeline.compile`."""

    model_config = ConfigDict(extra="allow")
    command: Literal["compile"] = "compile"
    run_id: str
    program: str
    solved: tuple[str, ...]
    unsolved: tuple[str, ...]
    pass_at_1: float
    pass_at_n: float
    iterations: int
    tokens: TokenFigures
    cost_usd: float | None
    seconds: float
    stopped: str | None
    message: str


class DryRunBounds(_Part):
    """What a run takes: requests, input and output tokens, and dollars, null where the price is unknown."""

    requests: int
    prompt: int
    completion: int
    usd: float | None


class DryRunOutput(Output):
    """The bounds that `pipeline.compile --dry-run` gives."""

    command: Literal["compile"] = "compile"
    least: DryRunBounds
    most: DryRunBounds


class EvaluateOutput(Output):
    """The figures of `pipeline.evaluate`."""

    model_config = ConfigDict(extra="allow")
    command: Literal["evaluate"] = "evaluate"
    pass_at_1: float
    pass_at_8: float
    pass_at_n: float
    solved: tuple[str, ...]
    unsolved: tuple[str, ...]
    by_group: Mapping[str, Mapping[str, Any]]
    by_class: Mapping[str, Mapping[str, Any]]
    by_task: Mapping[str, Mapping[str, Any]]
    samples: int
    answers: int
    without_answer: int
    tokens: TokenFigures
    cost_usd: float | None
    seconds: float
    program: str
    lm: str
    run_id: str | None


class GenerateOutput(Output):
    """The programs of `pipeline.generate`, by task; null for a task that was not reached."""

    model_config = ConfigDict(extra="allow")
    command: Literal["generate"] = "generate"
    solved: tuple[str, ...]
    unsolved: tuple[str, ...]
    tasks: Mapping[str, Mapping[str, Any] | None]
    warnings: Mapping[str, tuple[str, ...]] = Field(
        default_factory=dict, description="What goes wrong with the programs on stress inputs, by task."
    )


class AblateOutput(Output):
    """The page of `pipeline.ablate`, and each LM's figures by method."""

    model_config = ConfigDict(extra="allow")
    command: Literal["ablate"] = "ablate"
    ablation: str
    page: str
    files: tuple[str, ...]
    lms: Mapping[str, Mapping[str, Any]]


class CostOutput(Output):
    """What `pipeline.cost` found of one program; with `--compare`, `programs` has the same of each."""

    model_config = ConfigDict(extra="allow")
    command: Literal["cost"] = "cost"


class OptimizeOutput(Output):
    """The programs that `pipeline.optimize` found."""

    model_config = ConfigDict(extra="allow")
    command: Literal["optimize"] = "optimize"


class ReportOutput(Output):
    """The files of `pipeline.report`."""

    model_config = ConfigDict(extra="allow")
    command: Literal["report"] = "report"
    page: str
    runs: tuple[str, ...]
    files: tuple[str, ...]


OUTPUTS: Mapping[str, type[BaseModel]] = {
    "error": ErrorOutput,
    "verify": VerifyOutput,
    "verify-many": BatchOutput,
    "compile": CompileOutput,
    "compile-dry-run": DryRunOutput,
    "evaluate": EvaluateOutput,
    "generate": GenerateOutput,
    "ablate": AblateOutput,
    "report": ReportOutput,
    "cost": CostOutput,
    "optimize": OptimizeOutput,
}
"""The form of each object, by the name of its schema file."""


def versioned(command: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """A command's result, with the schema version and the command in front.

    Args:
        command: The command's name, such as `pipeline.compile`.
        result: The other fields of the command's `Output`.
    """
    return {"schema": SCHEMA, "command": command.removeprefix("pipeline."), **result}


def json_text(command: str, result: Mapping[str, Any]) -> str:
    """A command's result as one line of JSON; see `versioned`."""
    return json.dumps(versioned(command, result))
