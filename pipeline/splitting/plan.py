"""When tasks are split; to import it is fast."""

from __future__ import annotations

from typing import Literal

When = Literal["late", "first", "never"]
"""After a search, instead of one, or never."""

_SEARCH_SECONDS = 60.0
"""How long a task is searched as a whole, at most, before it is split."""


def search_seconds(when: When, seconds: float) -> float:
    """How many of so many seconds are for the search of a task as a whole."""
    return {"first": 0.0, "never": seconds, "late": min(_SEARCH_SECONDS, seconds / 2)}[when]
