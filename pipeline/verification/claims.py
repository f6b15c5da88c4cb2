"""Programs that a file or a record from elsewhere calls right: claims, until the cells have judged them.

A claim is refused unless its program passes its own task. What is refused neither counts nor is shown or saved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from pipeline.base.text import counted, visible
from pipeline.languages import registry
from pipeline.verification.judging import judging_of
from pipeline.verification.pool import WorkerLost
from pipeline.verification.worker import WorkerKilled, verdict_of
from step_runtime.base.errors import TaskError
from step_runtime.verification.verify import Verdict

MOST_SHOWN = 5
"""Refusals that a message names; the JSON object has all."""

_SECONDS = 10.0
_LONGEST = 200


@dataclass(frozen=True)
class Claim:
    """Says, at a place in a file, that a program implements a task."""

    place: str
    task: Any
    program: str


@dataclass(frozen=True)
class Refusal:
    """A claim that is not believed, and why, in one line each."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"

    def to_dict(self) -> dict[str, str]:
        """As JSON data."""
        return {"place": self.place, "reason": self.reason}


def refusals(
    claims: Sequence[Claim],
    executor: Executor,
    progress: Callable[[str], None] = lambda line: None,
    language: str | None = None,
) -> list[Refusal | None]:
    """For each claim None, if its program passes its task, or the refusal.

    Args:
        claims: What is said; equal programs of one task are judged once.
        executor: Where programs are judged, as for `Metric`: a task's code runs.
        progress: Is told every ten seconds how many are judged.
        language: Of the programs; None for the default.
    """
    keys = [(claim.task.statement, claim.program) for claim in claims]
    spoken = registry.find(language)
    judge, arguments = judging_of(spoken)
    futures = {key: executor.submit(judge, "task", *key, *arguments) for key in sorted({*keys})}  # equal: one cell
    reasons: dict[tuple[str, str], str | None] = {}
    told = time.monotonic()
    for done, (key, future) in enumerate(futures.items()):
        if time.monotonic() - told >= _SECONDS:
            told = time.monotonic()
            progress(f"{done:,} of {len(futures):,} programs from elsewhere are verified")
        try:
            reasons[key] = _reason(verdict_of(future, spoken.stages))
        except (TaskError, WorkerKilled, WorkerLost) as error:
            reasons[key] = _line(f"its task can't be used: {error}")
    return [
        None if (why := reasons[key]) is None else Refusal(visible(claim.place, line=True), why)
        for claim, key in zip(claims, keys, strict=True)
    ]


def message(refused: Sequence[Refusal], count: int, source: str) -> str:
    """The messages on refused claims of `source`, one line each; empty for none."""
    if not refused:
        return ""
    head = f"{len(refused):,} of {counted(count, 'program')} of {source} refused, as verification denies them:"
    return "\n".join([head, *listed(refused)])


def listed(refused: Sequence[Refusal]) -> Iterator[str]:
    """The first refusals, a line each, and how many more there are."""
    yield from (f"  {each}" for each in refused[:MOST_SHOWN])
    if len(refused) > MOST_SHOWN:
        yield f"  … and {len(refused) - MOST_SHOWN:,} more"


def _reason(verdict: Verdict) -> str | None:
    if verdict.passed:
        return None
    first = verdict.diagnostics[0]
    return _line(f"its program fails at stage {verdict.stage}: {first.code}: {first.message}")


def _line(text: str) -> str:
    shown = visible(" ".join(text.split()), line=True)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
