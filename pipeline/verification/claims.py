"""Programs that a file or a record from elsewhere calls right: claims, until the cells have judged them.

A claim is refused unless its program passes its own task. What is refused neither counts nor is shown or saved.
Programs that are lost at a limit cost a load seconds: after a few the limit is smaller, then the others are not judged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import dataclass
from typing import Any

from pipeline.base.text import counted, visible
from pipeline.languages import registry
from pipeline.verification.judging import judging_of
from pipeline.verification.limits import verification_settings
from pipeline.verification.pool import WorkerLost
from pipeline.verification.worker import WorkerKilled, verdict_of
from pipeline.verification.workers import Workers
from step_runtime.base.errors import TaskError

MOST_SHOWN = 5
"""Refusals that a message names; the JSON object has all."""

LIMITS = ((5.0, 2), (2.0, 4))
"""Processor time of a claim in seconds, and how many may be lost at it, or wait ten times as long, before it ends."""
UNJUDGED = "not judged, as too many programs before it were lost at a limit"

_SECONDS = 10.0
_LONGEST = 200

_Key = tuple[str, str]


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
    workers: Workers,
    progress: Callable[[str], None] = lambda line: None,
    language: str | None = None,
) -> list[Refusal | None]:
    """For each claim None, if its program passes its task, or the refusal.

    Args:
        claims: What is said; equal programs of one task are judged once.
        workers: Where programs are judged: a task's code runs.
        progress: Is told every ten seconds how many are judged.
        language: Of the programs; None for the default.
    """
    keys = [(claim.task.statement, claim.program) for claim in claims]
    spoken = registry.find(language)
    judge, arguments = judging_of(spoken)
    waiting = sorted({*keys})  # equal: one cell
    reasons: dict[_Key, str | None] = {}
    told = time.monotonic()
    for seconds, most in LIMITS:
        if not waiting:
            break
        lost = 0
        with workers.pool(verification_settings(seconds, language=language), len(waiting)) as pool:
            asked: dict[Future[Any], _Key] = {pool.submit(judge, "task", *key, *arguments): key for key in waiting}
            for future in as_completed(asked):
                reasons[asked[future]], limited = _answer(future, spoken.stages)
                lost += limited
                if time.monotonic() - told >= _SECONDS and len(reasons) < len({*keys}):
                    told = time.monotonic()
                    progress(f"{len(reasons):,} of {len({*keys}):,} programs from elsewhere are verified")
                if lost == most:
                    pool.kill_workers()
                    break
        waiting = [key for key in waiting if key not in reasons]
    reasons.update(dict.fromkeys(waiting, UNJUDGED))
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
    judged = [each for each in refused if each.reason != UNJUDGED]
    yield from (f"  {each}" for each in judged[:MOST_SHOWN])
    if len(judged) > MOST_SHOWN:
        yield f"  … and {len(judged) - MOST_SHOWN:,} more"
    if len(judged) < len(refused):
        yield f"  {len(refused) - len(judged):,} {UNJUDGED.replace('it were', 'them were')}"


def _answer(future: Future[Any], stages: Sequence[str]) -> tuple[str | None, bool]:
    """The reason of a refusal, None for a program that passes, and whether it was lost at a limit."""
    try:
        verdict = verdict_of(future, stages)
    except (TaskError, WorkerKilled, WorkerLost) as error:
        return _line(f"its task can't be used: {error}"), False
    if verdict.passed:
        return None, False
    first = verdict.diagnostics[0]
    return _line(f"its program fails at stage {verdict.stage}: {first.code}: {first.message}"), verdict.unknown


def _line(text: str) -> str:
    shown = visible(" ".join(text.split()), line=True)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
