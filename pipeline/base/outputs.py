"""The output of `--json`: one object on stdout, of the schema version and the form given here (docs/schemas).

    Output
    ├── ErrorOutput       any command that ends without a result: exit codes 2, 3 and 130
    ├── VerifyOutput      one program's verdict
    ├── BatchOutput       the verdicts on several programs
    ├── CompileOutput, EvaluateOutput, GenerateOutput, AblateOutput, ReportOutput

Fields may be added within a version; a field that is removed, renamed or changed in meaning gives a new version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from step_runtime.base.errors import Diagnostic
from step_runtime.verification.verdict import Verdict

SCHEMA: Literal[2] = 2
"""The version of the JSON objects."""


class Part(BaseModel):
    """An object, or a part of one, without further fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Output(Part):
    """The base of all objects: the schema version, and the command without its package."""

    schema_version: Literal[2] = Field(SCHEMA, alias="schema", description="The version of this object's form.")
    command: str = Field(description="The command that printed the object, such as `verify`.")

    def text(self) -> str:
        """The object as one line of JSON."""
        return json.dumps(self.model_dump(mode="json", by_alias=True))


def brief(warning: Diagnostic) -> str:
    """A warning as one line, with its first detail."""
    return f"{warning.code}: {', '.join([warning.message, *warning.details[:1]])}"


def warnings_json(found: Mapping[str, Sequence[Diagnostic]]) -> dict[str, list[dict[str, Any]]]:
    """Warnings by task, as JSON, of the tasks that have some."""
    return {name: list(map(asdict, some)) for name, some in found.items() if some}


class _Open(Output):
    """An object with further fields beside those given."""

    model_config = ConfigDict(extra="allow")


class _Solving(_Open):
    """The names of tasks with a right answer, and of the others."""

    solved: tuple[str, ...]
    unsolved: tuple[str, ...]
    warnings: Mapping[str, tuple[Diagnostic, ...]] = Field(
        default_factory=dict, description="Warnings about the tasks and the programs offered, by task."
    )


class TokenFigures(Part):
    """Tokens of all requests."""

    prompt: int
    completion: int
    cached: int


class _Measured(_Solving):
    """Figures of samples: pass@k, tokens and cost."""

    pass_at_1: float
    pass_at_n: float
    tokens: TokenFigures
    cost_usd: float | None
    seconds: float


class Failure(Part):
    """Why a command ended without a result."""

    kind: Literal["usage", "lm", "record", "cluster", "interrupted"]
    exit_code: Literal[2, 3, 130]
    message: str


class ErrorOutput(Output):
    """A command that ended without a result; its exit code is 2, 3 or 130."""

    error: Failure


class VerifyOutput(Verdict, Output):
    """The verdict of `pipeline.verify TASK [IMPL]`."""

    command: Literal["verify"] = "verify"


class BatchSummary(Part):
    """Counts of programs, and of all warnings; `seconds` is wall time."""

    programs: int
    passed: int
    failed: int
    unknown: int = 0
    proved: int | None = Field(None, description="With `--exact`, the programs proved equal to their references.")
    unusable: int
    warnings: int
    seconds: float


class BatchOutput(Output):
    """The verdicts of `pipeline.verify` on several programs, in the order of the command line."""

    command: Literal["verify"] = "verify"
    passed: bool
    programs: tuple[Verdict, ...]
    summary: BatchSummary


class CompileOutput(_Measured):
    """The result of `pipeline.compile`."""

    command: Literal["compile"] = "compile"
    run_id: str
    program: str
    iterations: int
    stopped: str | None
    message: str


class DryRunBounds(Part):
    """The requests, input and output tokens, and dollars of a run; null if the price is unknown."""

    requests: int
    prompt: int
    completion: int
    usd: float | None


class EvaluateOutput(_Measured):
    """The figures of `pipeline.evaluate`."""

    command: Literal["evaluate"] = "evaluate"
    pass_at_8: float
    by_group: Mapping[str, Mapping[str, Any]]
    by_class: Mapping[str, Mapping[str, Any]]
    by_task: Mapping[str, Mapping[str, Any]]
    samples: int
    answers: int
    without_answer: int
    program: str
    lm: str
    run_id: str | None


class GeneratedTask(Part):
    """The result for one task."""

    model_config = ConfigDict(extra="allow")
    passed: bool
    impl: str | None = Field(description="The program, simplified.")
    draft: str | None = Field(description="The program before it was simplified.")
    found_by: str | None = Field(description="What found it: an LM, `search` or `split`.")
    detail: str | None = Field(description="How, in words.")
    rewrites: tuple[str, ...] | None = Field(description="The rewrites that made it from the program found, in order.")
    cost: Mapping[str, float] | None = Field(description="Its figures on the default chip, with `--objective`.")
    files: tuple[str, ...]


class GenerateOutput(_Solving):
    """The programs of `pipeline.generate`, by task."""

    command: Literal["generate"] = "generate"
    tasks: Mapping[str, GeneratedTask]


class CostOutput(_Open):
    """The result of `pipeline.cost` for one program; with `--compare`, `programs` has a result for each."""

    command: Literal["cost"] = "cost"
    warnings: tuple[Diagnostic, ...] = Field((), description="Warnings about the task.")


OUTPUTS: Mapping[str, type[BaseModel]] = {
    "error": ErrorOutput,
    "verify": VerifyOutput,
    "verify-many": BatchOutput,
    "compile": CompileOutput,
    "evaluate": EvaluateOutput,
    "generate": GenerateOutput,
    "cost": CostOutput,
}
"""The form of each object that has a schema, by the name of its file; other commands print one as their page says."""


def json_text(command: str, result: Mapping[str, Any]) -> str:
    """A command's result as one line of JSON, with the schema version and the command in front."""
    return json.dumps({"schema": SCHEMA, "command": command.removeprefix("pipeline."), **result})


MANIFEST = "bundle.json"
"""A bundle: a program with all that a reviewer needs to trust it, as this file in its folder."""


class Origin(BaseModel):
    """Who wrote a program, and who answers for it; stated by who made the bundle, and not verified."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str = Field("", description="The task's name.")
    person: str | None = Field(None, description="Who answers for the program.")
    lm: str | None = Field(None, description="The LM that wrote it; null for a program that is not an LM's.")
    run_id: str | None = Field(None, description="The run on record in which it was written.")
    seed: int | None = Field(None, description="The seed of that run.")
    iteration: int | None = Field(None, description="From 1.")
    temperature: float | None = None
    sample: int | None = Field(None, description="From 0, at that temperature.")
    prompt_sha256: str | None = Field(None, description="Of the iteration's prompt, as the record has it.")
    simplified: bool | None = Field(None, description="Whether the program is the LM's answer, simplified.")
    made_by: Mapping[str, str] = Field({}, description="Versions: the project, Python, torch, the language.")


class Bundle(BaseModel):
    """The content of `bundle.json`; a check finds all of it again, but for the origin."""

    model_config = ConfigDict(frozen=True)

    format: Literal[3] = 3
    language: str | None = Field(description="Of the program; null for STeP.")
    origin: Origin
    license: str | None = Field(description="The task's, as an SPDX expression.")
    verdict: Mapping[str, Any] = Field(description="As `pipeline.verify --json` has it, with `--exact` in STeP.")
    held_out: Mapping[str, Any] = Field(
        description="The verdict at sizes and inputs of the checker's choice; {} for none."
    )
    cost: Mapping[str, Any] = Field(description="As `pipeline.cost --json` has it; {} in another language.")
    files: Mapping[str, str] = Field(description="The SHA-256 of each other file.")
