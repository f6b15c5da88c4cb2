"""Why a task has no verified program: the stages and diagnostics of its wrong answers, and the best of these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from optimizers import Attempt
from pipeline.base.text import counted
from pipeline.languages import registry
from pipeline.languages.language import Language
from pipeline.record.task_table import failed_at
from pipeline.reporting.pass_rates import answer_text
from step_runtime.base.errors import Stage

MAX_FAILURES = 3
"""Failures that a summary holds in full."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One wrong program, with the number of equivalent answers; `feedback` is its verdict, rendered."""

    stage: Stage
    codes: tuple[str, ...]
    count: int
    impl: str
    feedback: str


@dataclass(frozen=True, slots=True)
class Failures:
    """The wrong answers to one task.

    Attributes:
        stages: The number of answers that failed at each stage, the furthest stage first.
        diagnostics: The number of answers with each diagnostic's code, the most common first.
        best: Failures of the furthest stage, those with its most common diagnostics first.
        unknown: The number of answers of which it is not known whether they are right.
        without_answer: The number of requests that the LM left unanswered.
        reason: Why the last of these has no answer.
    """

    stages: dict[str, int]
    diagnostics: dict[str, int]
    best: tuple[Failure, ...]
    unknown: int
    without_answer: int
    reason: str | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "stages": self.stages,
            "diagnostics": self.diagnostics,
            "failures": [asdict(failure) for failure in self.best],
            "unknown": self.unknown,
            "without_answer": self.without_answer,
        }

    def render(self) -> str:
        """For people: the counts, then the best failures in full."""
        return "\n".join([*self.counted(), *self.shown()])

    def counted(self) -> list[str]:
        """Lines for people: how many answers there were, and where they fail."""
        answers = sum(self.stages.values())
        wrong = "all wrong" if answers > 1 else "wrong"
        lines = [f"  {counted(answers, 'answer')}, {wrong}" if answers else "  no answers"]
        if self.unknown:
            lines[0] += f"; {counted(self.unknown, 'answer')} not judged within the limits"
        if self.without_answer:
            lines[0] += f"; {counted(self.without_answer, 'request')} got none: {self.reason}"
        if answers:
            lines.append(f"  they fail at: {_counts(self.stages)}")
        if self.diagnostics and self.diagnostics != self.stages:  # equal if each stage has one code of its name
            lines.append(f"  most common:  {_counts(dict(list(self.diagnostics.items())[:5]))}")
        return lines

    def shown(self, most: int = MAX_FAILURES) -> list[str]:
        """Lines for people: at most so many of the best failures in full."""
        lines: list[str] = []
        for failure in self.best[:most]:
            times = f", sampled {failure.count} times" if failure.count > 1 else ""
            lines += ["", f"  fails at {failure.stage}{times}:"]
            lines += [f"    {line}" for line in failure.impl.strip().splitlines()]
            lines += ["", *(f"    {line}" for line in failure.feedback.splitlines())]
        return lines


def summarize(attempts: Sequence[Attempt], language: str | None = None) -> Failures:
    """The wrong answers among the attempts at one task, in a language; None for the default."""
    spoken = registry.find(language)
    wrong = [attempt for attempt in attempts if attempt.scored and not attempt.passed]
    unanswered = [attempt for attempt in attempts if not attempt.scored and not attempt.unknown]
    stages = Counter(failed_at(attempt) for attempt in wrong)
    furthest = sorted(stages, key=lambda stage: _place(stage, spoken), reverse=True)
    codes = Counter(code for attempt in wrong for code in set(_codes(attempt)))
    return Failures(
        stages={stage: stages[stage] for stage in furthest},
        diagnostics=dict(codes.most_common()),
        best=_best(wrong, spoken)[:MAX_FAILURES],
        unknown=sum(attempt.unknown for attempt in attempts),
        without_answer=len(unanswered),
        reason=unanswered[-1].error if unanswered else None,
    )


def nearest_failures(attempts: Iterable[Attempt], language: str | None = None) -> tuple[Failure, ...]:
    """One failure per distinct wrong program among the attempts, the nearest to a right one first."""
    return _best([attempt for attempt in attempts if attempt.scored and not attempt.passed], registry.find(language))


def _best(wrong: Sequence[Attempt], language: Language) -> tuple[Failure, ...]:
    """One failure per distinct program: the furthest stage first, then the most common diagnostics and programs."""
    groups: dict[str, list[Attempt]] = {}
    for attempt in wrong:
        groups.setdefault(language.key(None, answer_text(attempt)), []).append(attempt)
    found = Counter((failed_at(attempt), _codes(attempt)) for attempt in wrong)

    def rank(group: Sequence[Attempt]) -> tuple[int, int, int]:
        first = group[0]
        return -_place(failed_at(first), language), -found[failed_at(first), _codes(first)], -len(group)

    return tuple(_failure(group) for group in sorted(groups.values(), key=rank))


def _place(stage: str, language: Language) -> int:
    """How far a stage is."""
    return language.stages.index(stage) if stage in language.stages else -1


def _failure(group: Sequence[Attempt]) -> Failure:
    first = group[0]
    feedback = str(first.feedback.get("feedback") or first.error or "")
    return Failure(failed_at(first), _codes(first), len(group), answer_text(first), feedback)


def _codes(attempt: Attempt) -> tuple[str, ...]:
    return tuple(dict.fromkeys(attempt.feedback.get("codes", ())))


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{key} ({count})" for key, count in counts.items())
