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
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA: Literal[1] = 1
"""The version of the JSON objects."""

Severity = Literal["error", "warning"]


class Part(BaseModel):
    """An object, or a part of one, without further fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Output(Part):
    """The base of all objects: the schema version, and the command without its package."""

    schema_version: Literal[1] = Field(SCHEMA, alias="schema", description="The version of this object's form.")
    command: str = Field(description="The command that printed the object, such as `verify`.")

    def text(self) -> str:
        """The object as one line of JSON."""
        return json.dumps(self.model_dump(mode="json", by_alias=True))


class _Open(Output):
    """An object with further fields beside those given."""

    model_config = ConfigDict(extra="allow")


class _Solving(_Open):
    """The names of tasks with a right answer, and of the others."""

    solved: tuple[str, ...]
    unsolved: tuple[str, ...]
    warnings: Mapping[str, tuple[str, ...]] = Field(
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


class Finding(Part):
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


def warning_line(finding: Finding) -> str:
    """A warning as a line, with its details in lines below it."""
    place = ":".join(str(part) for part in (finding.file, finding.line, finding.column) if part is not None)
    head = f"{place}: warning: {finding.code}: {finding.message}"
    return "\n".join([head, *(f"  {detail}" for detail in finding.details)])


class ExactFinding(Part):
    """The answer of exact arithmetic for a passing program."""

    answer: Literal["proved", "different", "unknown"] = Field(
        description="Whether it equals the reference for all inputs at the sizes, differs, or neither is known."
    )
    reason: str = Field(description="The meaning, the place of the difference, or the operation that was not followed.")
    bits: int = Field(description="A proof is wrong with a probability of at most 2 to the minus this.")
    sizes: tuple[str, ...] = Field(description="The sets of sizes that the answer is about.")


class SurvivingMutant(Part):
    """A mutant that passes, and is not proved to be the same function."""

    kind: str
    text: str
    change: str = Field(description="To the task, that kills it; empty where nothing that was tried does.")
    reason: str = Field(description="Its error there, or the reason that no proof makes it the same function.")


class MutationFigures(Part):
    """What became of the mutants of a program that passes."""

    score: float = Field(description="The share of killed mutants, of those not proved to be the same function.")
    killed: int
    same: int = Field(description="Mutants proved to be the same function.")
    unknown: int
    left: int = Field(description="Mutants that were not judged.")
    survivors: tuple[SurvivingMutant, ...]


class ProgramVerdict(Part):
    """The verdict on one program."""

    model_config = ConfigDict(allow_inf_nan=False)

    task: str = Field(description="The task's name.")
    task_file: str
    program: str | None = Field(description="The program's file; null for standard input.")
    passed: bool
    unknown: bool = Field(
        False, description="Whether it is not known if the program is right: a limit or a fault ended its verification."
    )
    stage: str | None = Field(description="The first stage that failed; null for a program that passes.")
    diagnostics: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    error: str | None = Field(None, description="Why the task or the program could not be used, if so.")
    values: str | None = Field(None, description="With `--values`, where the values part from the reference's.")
    exact: ExactFinding | None = Field(None, description="With `--exact`, the answer of the proof.")
    mutants: MutationFigures | None = Field(None, description="With `--mutants` and if it passes, their outcome.")
    seconds: float = Field(0.0, description="Processor time of the verification, in seconds.")

    @property
    def failed(self) -> bool:
        """Whether the program is wrong: it was judged, and does not pass."""
        return not self.passed and not self.unknown and self.error is None


class VerifyOutput(ProgramVerdict, Output):
    """The verdict of `pipeline.verify TASK [IMPL]`."""

    command: Literal["verify"] = "verify"
    cost: Mapping[str, Any] | None = Field(None, description="With `--cost`, the cost of a program that passes.")


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
    programs: tuple[ProgramVerdict, ...]
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


class DryRunOutput(Output):
    """The bounds that `pipeline.compile --dry-run` gives."""

    command: Literal["compile"] = "compile"
    least: DryRunBounds
    most: DryRunBounds


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


class OfferedProgram(Part):
    """A verified program of a task."""

    impl: str
    file: str | None = Field(description="Where it was written as an alternative; null for the first, see `files`.")
    found_by: str = Field(description="The stage that found it: an LM, `search` or `split`.")
    detail: str = Field(description="How, in words.")
    rewrites: tuple[str, ...] = Field(description="The rewrites that made it from the program found, in order.")
    cost: Mapping[str, float] | None = Field(description="Its figures on the default chip; null if unknown.")
    warnings: tuple[str, ...] = Field((), description="Warnings about it: failures on stress inputs.")


class GeneratedTask(Part):
    """The result for one task."""

    model_config = ConfigDict(extra="allow")
    passed: bool
    impl: str | None = Field(description="The program that is offered, simplified.")
    draft: str | None = Field(description="The program before it was simplified.")
    found_by: str | None
    detail: str | None
    files: tuple[str, ...]
    programs: tuple[OfferedProgram, ...] = Field(description="The program that is offered, then those of other cost.")
    sizes: Mapping[str, int] = Field(description="The sizes that programs are priced at.")


class GenerateOutput(_Solving):
    """The programs of `pipeline.generate`, by task."""

    command: Literal["generate"] = "generate"
    tasks: Mapping[str, GeneratedTask]


class AblateOutput(_Open):
    """The page of `pipeline.ablate`, and each LM's figures by method."""

    command: Literal["ablate"] = "ablate"
    ablation: str
    page: str
    files: tuple[str, ...]
    lms: Mapping[str, Mapping[str, Any]]


class SweepRunOutput(Part):
    """A run of a sweep."""

    values: Mapping[str, Any] = Field(description="The settings that the sweep varies, by name.")
    run_id: str | None = Field(description="MLflow's; null for a run that has not started.")
    status: str | None = Field(description="MLflow's, such as `FINISHED`; null for a run that has not started.")
    curve: tuple[Mapping[str, float], ...] = Field(
        description="`samples` and `tokens` so far and tasks `solved`, from the start of a finished run to its end."
    )


class Interval(Part):
    """A figure over the finished runs of a configuration."""

    mean: float | None = Field(description="Null without a finished run.")
    low: float | None = Field(description="The lower end of the 95 % confidence interval; null below two runs.")
    high: float | None = Field(description="Its upper end.")


class ConfigurationOutput(Part):
    """The settings that a sweep varies, without the seed, and figures over the seeds."""

    configuration: str
    runs: int = Field(description="The number of its finished runs.")
    figures: Mapping[str, Interval]


class ComparisonOutput(Part):
    """The differences between two configurations, seed by seed."""

    configuration: str
    less: str = Field(description="The configuration that is subtracted.")
    pairs: int = Field(description="The number of pairs of finished runs whose other settings are equal.")
    differences: Mapping[str, Interval]


class SweepOutput(Output):
    """The runs of `pipeline.sweep`, means and intervals by configuration, and paired differences."""

    command: Literal["sweep"] = "sweep"
    sweep: str
    address: str = Field(description="Where MLflow's UI shows the runs.")
    runs: tuple[SweepRunOutput, ...]
    configurations: tuple[ConfigurationOutput, ...]
    comparisons: tuple[ComparisonOutput, ...]


class ConfigurationBounds(Part):
    """The requests, tokens and dollars of a configuration's remaining runs together."""

    runs: int
    least: DryRunBounds
    most: DryRunBounds


class SweepDryRunOutput(Output):
    """The bounds that `pipeline.sweep --dry-run` gives, by configuration."""

    command: Literal["sweep"] = "sweep"
    configurations: Mapping[str, ConfigurationBounds]


class AblateDryRunOutput(Output):
    """The bounds that `pipeline.ablate --dry-run` gives, by LM and method."""

    command: Literal["ablate"] = "ablate"
    runs: Mapping[str, ConfigurationBounds]


class CostOutput(_Open):
    """The result of `pipeline.cost` for one program; with `--compare`, `programs` has a result for each."""

    command: Literal["cost"] = "cost"
    warnings: tuple[str, ...] = Field((), description="Warnings about the task.")


class OptimizeOutput(_Open):
    """The programs that `pipeline.optimize` found."""

    command: Literal["optimize"] = "optimize"
    warnings: tuple[str, ...] = Field((), description="Warnings about the task and the program found.")


class ReportOutput(_Open):
    """The files of `pipeline.report`."""

    command: Literal["report"] = "report"
    page: str
    runs: tuple[str, ...]
    files: tuple[str, ...]


def versioned(command: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """A command's result, with the schema version and the command, without its package, in front."""
    return {"schema": SCHEMA, "command": command.removeprefix("pipeline."), **result}


def json_text(command: str, result: Mapping[str, Any]) -> str:
    """A command's result as one line of JSON; see `versioned`."""
    return json.dumps(versioned(command, result))
