"""The instructions and requests of the agent's predictors, in a language of a name; None for the default."""

from __future__ import annotations

import dspy

from pipeline.base.choices import PromptKind
from pipeline.base.languages import DEFAULT
from pipeline.languages import registry
from signatures import holds_program, without_ir


def instructions_in(language: str | None, role: str, ir: bool, kind: PromptKind) -> str:
    """The instructions of `proposer`, `guardian` or `refiner`.

    Raises:
        UsageError: A file of them can't be used.
    """
    return registry.find(language).instructions(role, ir=ir, kind=kind)


def signature_in(language: str | None, signature: type[dspy.Signature], ir: bool) -> type[dspy.Signature]:
    """The signature with its task as the language shows it."""
    if language in (None, DEFAULT):
        return signature if ir else without_ir(signature)
    plain: type[dspy.Signature] = signature.with_updated_fields("task", type_=object, desc="the task")
    return plain


def holds_program_in(language: str | None, text: str) -> bool:
    """Whether an answer has a program: a statement of STeP; in another language any text."""
    return holds_program(text) if language in (None, DEFAULT) else bool(text.strip())
