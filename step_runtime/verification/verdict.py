"""The result of verification, in any language: from the cell that reaches it to the record and JSON, unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from step_runtime.base.errors import UNKNOWN, Diagnostic, quantity

Answer = Literal["proved", "different", "unknown"]
_ANSWERS: tuple[Answer, ...] = ("different", "unknown", "proved")
"""What counts where sets of sizes differ, the first first."""
_LONGEST_FEEDBACK = 20_000
"""Characters of a rendered verdict after which no further finding is added."""


@dataclass(frozen=True)
class ExactVerdict:
    """The answer of exact arithmetic for a passing program."""

    answer: Annotated[
        Answer, Field(description="Whether it equals the reference for all inputs at the sizes, or neither is known.")
    ]
    reason: Annotated[str, Field(description="What was not followed, or where the two differ.")] = ""
    bits: Annotated[int, Field(description="A proof is wrong with a probability of at most 2 to the minus this.")] = 0
    sizes: Annotated[tuple[str, ...], Field(description="The sets of sizes that the answer is about.")] = ()
    prover: Annotated[str, Field(description="The version of the prover, a digest of its code.")] = ""
    steps: Annotated[tuple[str, ...], Field(description="A proof in a few lines, at its first set of sizes.")] = ()

    @classmethod
    def joined(cls, verdicts: Sequence[ExactVerdict]) -> ExactVerdict:
        """One verdict for several sets of sizes: proved if all are; the sizes of the answer that counts."""
        answer = next(answer for answer in _ANSWERS if any(one.answer == answer for one in verdicts))
        own = [one for one in verdicts if one.answer == answer]
        return replace(
            own[0], bits=min(one.bits for one in own), sizes=tuple(place for one in own for place in one.sizes)
        )

    def render(self) -> str:
        """The verdict in a sentence."""
        where = f"at {'; '.join(self.sizes)}"
        error = f" (error at most 2^-{self.bits})" if self.bits else ""
        return f"exact: {self.answer} {where}: {self.reason}{error}"


def _says_nothing(verdict: dict[str, Any]) -> bool:
    found = verdict["diagnostics"]
    return bool(found) and not verdict["passed"] and found[0].code in UNKNOWN


class Verdict(BaseModel):
    """The verdict on one program.

    A language gives `passed`, `stage` and `diagnostics`: all findings of the first stage that fails, or the first of
    them. `pipeline.verify` adds the names of files, the text for people, and what else is asked of it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    task: str = Field("", description="The task's name.")
    task_file: str = ""
    program: str | None = Field(None, description="The program's file; null for standard input.")
    passed: bool
    stage: str | None = Field(None, description="The first stage that failed; null for a program that passes.")
    diagnostics: tuple[Diagnostic, ...] = Field((), description="Places are in `program`.")
    unknown: bool = Field(
        default_factory=_says_nothing,
        description="Whether it is not known if the program is right: a limit or a fault ended its verification.",
    )
    warnings: tuple[Diagnostic, ...] = Field(
        (), description="Places are in `program`; those of the stage `task` are in `task_file`."
    )
    error: str | None = Field(None, description="Why the task or the program could not be used, if so.")
    values: str | None = Field(None, description="With `--values`, where the values part from the reference's.")
    exact: ExactVerdict | None = Field(None, description="With `--exact`, the answer of the proof.")
    sizes: tuple[dict[str, str | float], ...] = Field(
        (),
        description="With `--sizes`, each output's error, the reference's, and the bound, in units of the last place.",
    )
    held_out: tuple[str, ...] = Field((), description="Of a held-out verdict, the sets of sizes that were drawn.")
    ir: dict[str, Any] | None = Field(None, description="With `--ir`, the program's graph.")
    seconds: float = Field(0.0, description="Processor time of the verification, in seconds.")
    feedback: str = Field("", description="The verdict for people and LMs, as the command prints it.")
    streams: str = Field("", description="With `--explain`, every stream with its element type and dims.")

    def __eq__(self, other: object) -> bool:
        """Whether all but the time is equal."""
        return isinstance(other, Verdict) and {**vars(self), "seconds": 0} == {**vars(other), "seconds": 0}

    def __hash__(self) -> int:
        return hash((self.passed, self.stage, self.diagnostics))

    @property
    def failed(self) -> bool:
        """Whether the program is wrong: it was judged, and does not pass."""
        return not self.passed and not self.unknown and self.error is None

    @property
    def reason(self) -> str:
        """The first finding in a line; empty for a program that passes."""
        if not self.diagnostics:
            return ""
        first = self.diagnostics[0]
        return ": ".join([first.code, ", ".join([first.message, *first.details])])

    def render(self, text: str, name: str = "program") -> str:
        """The verdict for people and LMs alike; the first findings of very many."""
        if self.passed:
            return f"{name}: passed"
        lines: list[str] = []
        length = 0
        for number, diagnostic in enumerate(self.diagnostics):
            if length > _LONGEST_FEEDBACK:
                lines.append(f"… and {quantity(len(self.diagnostics) - number, 'more finding')}")
                break
            lines.append(diagnostic.render(text, name))
            length += len(lines[-1])
        return "\n".join(lines)

    def warned(self) -> list[str]:
        """Each warning as a line, with its details in lines below it."""
        lines = []
        for each in self.warnings:
            file = self.task_file if each.stage == "task" else self.program
            place = [*filter(None, [file]), *([str(each.span.line), str(each.span.column)] if each.span else [])]
            lines.append("\n  ".join([f"{':'.join(place)}: warning: {each.code}: {each.message}", *each.details]))
        return lines
