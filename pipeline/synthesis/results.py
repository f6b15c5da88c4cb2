"""What came of searches: their programs, and why there is none."""

from __future__ import annotations

from pipeline.synthesis.search_budget import SearchOutcome

_REASONS = {
    "time": "time limit reached; raise --max-minutes",
    "candidates": "candidate limit reached; raise --max-candidates",
    "memory": "memory limit reached; smaller `sizes` in the task file leave room for more programs",
    "exhausted": "everything within reach was tried without success; the task may lack a helper function",
    "crashed": "the process crashed, in one of the task's functions or its reference",
    "killed": "something else killed the process, such as a machine that is out of memory; run it again",
    "internal": "an error of the search itself, a bug",
}


def programs_of(outcome: SearchOutcome) -> list[str]:
    """The first program that a search found, then the others that no other beats."""
    texts = [outcome.impl, *(program.impl for program in outcome.front)]
    return list(dict.fromkeys(text for text in texts if text is not None))


def why(outcome: SearchOutcome) -> str:
    """Why nothing was found, in words."""
    reason = _REASONS[outcome.reason or "exhausted"]
    return f"{reason}: {outcome.error}" if outcome.error else reason
