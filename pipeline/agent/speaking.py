"""The requests of the agent's predictors, in a language of a name; None for the default."""

from __future__ import annotations

import dspy

from pipeline.base.languages import DEFAULT
from signatures import holds_program, without_ir


def signature_in(language: str | None, signature: type[dspy.Signature], ir: bool) -> type[dspy.Signature]:
    """The signature with its task as the language shows it."""
    if language in (None, DEFAULT):
        return signature if ir else without_ir(signature)
    plain: type[dspy.Signature] = signature.with_updated_fields("task", type_=object, desc="the task")
    return plain


def holds_program_in(language: str | None, text: str) -> bool:
    """Whether an answer has a program: a statement of STeP; in another language any text."""
    return holds_program(text) if language in (None, DEFAULT) else bool(text.strip())
