"""Programs that a file or a record from elsewhere calls right: claims, until the cells have judged them.

A claim is refused unless its program passes its own task. What is refused neither counts nor is shown or saved. All are
judged at a small limit of time, so that what hangs keeps no quick program from its verdict, and the slower ones at
greater limits, until too many are refused.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import dataclass
from typing import Any

from pipeline.base.text import counted, one_line, visible
from pipeline.languages import registry
from pipeline.verification.judge import Request, judge, verdict_in
from pipeline.verification.limits import verification_settings
from pipeline.verification.pool import WorkerLost, Workers
from step_runtime.base.errors import TaskError

MOST_SHOWN = 5
"""Refusals that a message names; the JSON object has all."""


@dataclass(frozen=True)
class Round:
    """A limit of time at which claims are judged that the one before was not enough for.

    Attributes:
        seconds: Of processor time, a claim.
        patience: By the clock, as a multiple of these.
        refused: Claims that may be refused before the round ends.
        share: It may be one more for so many claims that wait; 0 for all.
    """

    seconds: float
    patience: int
    refused: int = 0
    share: int = 0

    def most(self, waiting: int) -> int:
        """How many may be refused of so many."""
        return self.refused + waiting // self.share if self.share else waiting


ROUNDS = (Round(0.5, 2), Round(2.0, 4, 4, 50), Round(5.0, 4, 2, 100))
"""A quick verdict takes less than 0.1 s; what all claims together may take is in `docs/security.md`."""

_SECONDS = 10.0
_OF_TIME = ("time-limit", "lost-before")


@dataclass(frozen=True)
class Claim:
    """Says, at a place in a file, that a program implements a task; refused for a `reason`, in a line, if there is one.

    A refused claim may be right unless it was `judged`.
    """

    place: str
    task: Any
    program: str
    reason: str = ""
    judged: bool = True

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"

    def to_dict(self) -> dict[str, str]:
        """As JSON data."""
        return {"place": self.place, "reason": self.reason}


def judged(
    claims: Sequence[Claim],
    workers: Workers,
    progress: Callable[[str], None] = lambda line: None,
    language: str | None = None,
) -> list[Claim]:
    """The claims, each with the reason if it is refused: its program does not pass its task.

    Args:
        claims: What is said; equal programs of one task are judged once.
        workers: Where programs are judged: a task's code runs.
        progress: Is told every ten seconds how many are judged.
        language: Of the programs; None for the default.
    """
    keys = [(claim.task.statement, claim.program) for claim in claims]
    waiting, stages = sorted({*keys}), registry.find(language).stages  # equal: one cell
    reasons: dict[tuple[str, str], tuple[str, bool]] = {}
    count, told = len(waiting), time.monotonic()
    for limit in ROUNDS:
        if not waiting:
            break
        settings = verification_settings(limit.seconds, language=language, patience=limit.patience)
        longer, refused, most = [], 0, limit.most(len(waiting))
        clock = limit.seconds * limit.patience
        left = f"not judged within {limit.seconds:g} s of processor time and {clock:g} s by the clock"
        requests = [Request(task="task", statement=task, text=text, language=language) for task, text in waiting]
        with workers.pool(settings, len(waiting)) as pool:
            asked = {pool.submit(judge, each): (key, each) for key, each in zip(waiting, requests, strict=True)}
            for future in as_completed(asked):
                key, request = asked[future]
                reason, limited = _answer(request, future, stages)
                reasons[key] = (left, False) if limited else (reason, True)
                longer += [key] * limited
                refused += bool(reason)
                if time.monotonic() - told >= _SECONDS and len(reasons) < count:
                    told = time.monotonic()
                    progress(f"{len(reasons):,} of {count:,} programs from elsewhere are verified")
                if refused == most < len(waiting):
                    pool.kill_workers()
                    break
        waiting = longer
    return [
        Claim(visible(claim.place, line=True), claim.task, claim.program, *reasons[key])
        for claim, key in zip(claims, keys, strict=True)
    ]


def message(refused: Sequence[Claim], count: int, source: str) -> str:
    """The messages on refused claims of `source`, one line each; empty for none."""
    if not refused:
        return ""
    head = f"{len(refused):,} of {counted(count, 'program')} of {source} refused, as verification denies them:"
    return "\n".join([head, *listed(refused)])


def listed(refused: Sequence[Claim]) -> Iterator[str]:
    """The first refusals, a line each, and how many more there are."""
    judged = [each for each in refused if each.judged]
    yield from (f"  {each}" for each in judged[:MOST_SHOWN])
    if len(judged) > MOST_SHOWN:
        yield f"  … and {len(judged) - MOST_SHOWN:,} more"
    for reason, count in Counter(each.reason for each in refused if not each.judged).items():
        yield f"  {count:,} {reason}"


def _answer(request: Request, future: Future[Any], stages: Sequence[str]) -> tuple[str, bool]:
    """The reason of a refusal, empty for a program that passes, and whether more time could give another."""
    try:
        verdict = verdict_in(stages, request, future)
    except (TaskError, WorkerLost) as error:
        return one_line(f"its task can't be used: {error}"), False
    if verdict.passed:
        return "", False
    first = verdict.diagnostics[0]
    return one_line(
        f"its program fails at stage {verdict.stage}: {first.code}: {first.message}"
    ), first.code in _OF_TIME
