"""The form of a bundle: a program with all that a reviewer needs to trust it, as `bundle.json` in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MANIFEST = "bundle.json"


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
    made_by: Mapping[str, str] = Field({}, description="The versions of the project, of Python and of torch.")


class Bundle(BaseModel):
    """The content of `bundle.json`; a check finds all of it again, but for the origin."""

    model_config = ConfigDict(frozen=True)

    format: Literal[2] = 2
    origin: Origin
    license: str | None = Field(description="The task's, as an SPDX expression.")
    verdict: Mapping[str, Any] = Field(description="As `pipeline.verify --exact --json` has it.")
    held_out: Mapping[str, Any] = Field(description="The verdict at sizes and inputs that the checker chooses.")
    cost: Mapping[str, Any] = Field(description="As `pipeline.cost --json` has it.")
    files: Mapping[str, str] = Field(description="The SHA-256 of each other file.")
