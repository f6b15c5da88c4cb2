"""The result of verification, in any language."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from step_runtime.base.errors import UNKNOWN, Diagnostic, quantity

if TYPE_CHECKING:
    from step_runtime.verification.exact.proof import ExactVerdict

_LONGEST_FEEDBACK = 20_000
"""Characters of a rendered verdict after which no further finding is added."""


@dataclass(frozen=True)
class Verdict:
    """The result of verification.

    `stage` is None for a program that passes, else the first stage that fails; `diagnostics` are all those
    of parse, type and affine, or the first of a later stage; `seconds` is the wall time spent; `exact` is what exact
    arithmetic says, where that was asked of a program that passes.
    """

    passed: bool
    stage: str | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    seconds: float = field(default=0.0, compare=False)
    exact: ExactVerdict | None = None

    @property
    def unknown(self) -> bool:
        """Whether it is not known if the program is right: see `errors.UNKNOWN`."""
        return bool(self.diagnostics) and not self.passed and self.diagnostics[0].code in UNKNOWN

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
