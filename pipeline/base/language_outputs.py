"""The output of `pipeline.language --json`; see `pipeline.base.outputs`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipeline.base.outputs import Output, Part


class ConformanceCase(Part):
    """One thing that a language must keep, and whether it does."""

    property: str = Field(description="The property under test, such as `oracles` or `keys`.")
    name: str = Field(description="The subject: a file below the language's folder, or a word.")
    outcome: Literal["held", "broken", "skipped"]
    message: str = Field("", description="The error, or the reason for skipping.")
    seconds: float = Field(0.0, description="Processor time of the verdict, in seconds.")


class LanguageCheckOutput(Output):
    """The conformance report of `pipeline.language check`."""

    command: Literal["language"] = "language"
    language: str
    version: str
    stages: tuple[str, ...]
    executes: bool = Field(description="Whether programs are run as code of the host.")
    passed: bool = Field(description="Whether nothing is broken.")
    held: int
    broken: int
    skipped: int
    cold_seconds: float | None = Field(description="Wall time of the first verdict, its worker's start included.")
    warm_seconds: float | None = Field(description="The median wall time of a later verdict.")
    cases: tuple[ConformanceCase, ...]


class LanguageNewOutput(Output):
    """The files that `pipeline.language new` wrote."""

    command: Literal["language"] = "language"
    language: str
    files: tuple[str, ...]
