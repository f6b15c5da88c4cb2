"""The instructions and requests of the agent's predictors, in a language of a name; None for the default."""

from __future__ import annotations

from typing import Any

import dspy

from pipeline.base.errors import UsageError
from pipeline.base.paths import shown
from pipeline.languages import registry
from pipeline.languages.language import RecognizesPrograms, WritesPrompts
from signatures import without_ir


def instructions_in(language: str | None, role: str, ir: bool, kind: str) -> str:
    """The instructions of `proposer`, `guardian` or `refiner`.

    Raises:
        UsageError: A file of them can't be used.
    """
    spoken: Any = registry.find(language)
    if isinstance(spoken, WritesPrompts):
        return spoken.instructions(role, ir=ir, kind=kind)
    path = spoken.folder / "prompts" / f"{role}.md"
    try:
        return str(path.read_text(encoding="utf-8")).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"{shown(path)}: cannot read the prompt: {reason}") from None


def signature_in(language: str | None, signature: type[dspy.Signature], ir: bool) -> type[dspy.Signature]:
    """The signature with its task as the language shows it."""
    if isinstance(registry.find(language), WritesPrompts):
        return signature if ir else without_ir(signature)
    plain: type[dspy.Signature] = signature.with_updated_fields("task", type_=object, desc="the task")
    return plain


def holds_program_in(language: str | None, text: str) -> bool:
    """Whether an answer has a program: as the language says, else any text."""
    spoken: Any = registry.find(language)
    return spoken.holds_program(text) if isinstance(spoken, RecognizesPrograms) else bool(text.strip())
