"""The typed results of the server's tools beside their text; clients get their JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pipeline.base.outputs import Finding
from pipeline.base.redaction import redacted
from pipeline.base.text import visible, visible_json


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True)


class CheckedProgram(_Result):
    """The findings of the checks without a run."""

    passed: bool
    stage: str | None = Field(description="The first stage that failed; null if every check passes.")
    findings: tuple[Finding, ...]
    streams: str = Field(description="Every stream with its element type, its dims and the primitive that makes it.")


class ProgramCost(_Result):
    """The cost of a program on a chip."""

    cost: Mapping[str, Any] = Field(description="As `pipeline.cost --json` prints it.")


class NearExample(_Result):
    """A solved task."""

    source: str
    similarity: float = Field(description="To the task in question, from 0 to 1.")
    task: str = Field(description="The task as YAML.")
    program: str


class NearExamples(_Result):
    """Solved tasks, the most similar first."""

    examples: tuple[NearExample, ...]


class GeneratedProgram(_Result):
    """The result of `pipeline.generate` for one task."""

    passed: bool
    program: str | None = Field(description="The verified program; null if none was found.")
    found_by: str | None
    detail: str | None
    warnings: tuple[str, ...] = Field((), description="Warnings about the task and the program.")
    advice: Mapping[str, Any] | None = Field(description="Without a program: advice.")


def safe_text(text: str) -> str:
    """A text without secrets, in which characters that would not be seen are written out."""
    return visible(redacted(text))


def safe_content(result: BaseModel) -> dict[str, Any]:
    """A result as JSON data, without secrets."""
    content: dict[str, Any] = json.loads(redacted(visible_json(result.model_dump(mode="json"))))
    return content
