"""Answers judged once more at the end of a run, on data that chose no answer.

A solution is an answer that passed. It may have passed by chance, or because it fits its own data. One that falls is
marked in the record: it counts as it was scored, but is no demonstration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import dspy

Claims = Sequence[tuple[dspy.Example, Mapping[str, Any]]]
"""Examples, each with the fields of an answer to it."""


@dataclass(frozen=True, slots=True)
class HeldOutVerdict:
    """The verdict on an answer by data that chose no answer.

    Attributes:
        answer: `unknown` where it could not be judged.
        reason: Why it failed, or why nothing is known, in a line.
        details: Further details of the domain, for the record, as JSON data.
    """

    answer: Literal["passed", "failed", "unknown"]
    reason: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


HoldOut = Callable[[Claims, Claims], Sequence[HeldOutVerdict | None]]
"""Judges solutions and refused answers once more, and returns a verdict for each, None for one that was not judged."""


@dataclass(frozen=True, slots=True)
class Quadrants:
    """Answers by the run's verdict and by the held-out verdict.

    Attributes:
        both: Solutions that pass.
        run_only: Solutions that fall.
        gate_only: Tasks with a closest refused answer that would pass; None if none was judged.
        neither: Tasks with a closest refused answer that fails there too; None likewise.
        unknown: Solutions and refused answers with an unknown verdict.
        unjudged: Solutions that were not judged once more.
    """

    both: int
    run_only: int
    gate_only: int | None
    neither: int | None
    unknown: int
    unjudged: int

    @classmethod
    def of(cls, solutions: Sequence[HeldOutVerdict | None], refused: Sequence[HeldOutVerdict]) -> Quadrants:
        """The counts of verdicts on solutions, and on refused answers."""
        right, wrong = ([each.answer for each in own if each is not None] for own in (solutions, refused))
        return cls(
            both=right.count("passed"),
            run_only=right.count("failed"),
            gate_only=wrong.count("passed") if wrong else None,
            neither=wrong.count("failed") if wrong else None,
            unknown=[*right, *wrong].count("unknown"),
            unjudged=len(solutions) - len(right),
        )
