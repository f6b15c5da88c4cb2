"""The form of a bundle: a program with all that a reviewer needs to trust it, as `bundle.json` in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipeline.base.outputs import Output, ProgramVerdict

MANIFEST = "bundle.json"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BundledFile(_Part):
    """A file of a bundle."""

    name: str
    sha256: str


class Origin(_Part):
    """Who wrote a program, and who answers for it; stated by who made the bundle, and not verified."""

    person: str | None = Field(None, description="Who answers for the program.")
    lm: str | None = Field(None, description="The LM that wrote it; null for a program that is not an LM's.")
    run_id: str | None = Field(None, description="The run on record in which it was written.")
    seed: int | None = Field(None, description="The seed of that run.")
    iteration: int | None = Field(None, description="From 1.")
    temperature: float | None = None
    sample: int | None = Field(None, description="From 0, at that temperature.")
    prompt_sha256: str | None = Field(None, description="Of the iteration's prompt, as the record has it.")
    simplified: bool | None = Field(None, description="Whether the program is the LM's answer, simplified.")


class HeldOutFinding(_Part):
    """The verdict on the program at sizes and inputs that were drawn for the bundle."""

    seed: int
    answer: Literal["passed", "failed", "unknown"]
    reason: str
    sizes: tuple[str, ...]


class Bundle(_Part):
    """The content of `bundle.json`."""

    format: Literal[1] = 1
    task: str
    language: str
    license: str | None = Field(description="The task's, as an SPDX expression.")
    made_by: Mapping[str, str] = Field(description="The versions of the project, of Python and of torch.")
    origin: Origin
    dtype: Literal["float32", "float64"]
    verdict: ProgramVerdict
    held_out: HeldOutFinding | None
    cost: Mapping[str, Any] | None
    files: tuple[BundledFile, ...]


class BundleCheck(_Part):
    """One thing that a bundle says, and whether it holds here and now."""

    what: str
    holds: bool
    message: str = ""


class BundleOutput(Output):
    """A bundle that `pipeline.bundle` made, or checked."""

    command: Literal["bundle"] = "bundle"
    folder: str
    sha256: str = Field(description="Of `bundle.json`, which has the digests of all other files.")
    passed: bool = Field(description="Whether all that the bundle says holds.")
    checks: tuple[BundleCheck, ...] = Field((), description="The checked files; empty for a new bundle.")
    bundle: Bundle
