"""When and how tasks are split; to import it is fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

When = Literal["late", "first", "never"]

_SEARCH_SECONDS = 60.0
"""How long a task is searched as a whole, at most, before it is split."""


@dataclass(frozen=True)
class Splitting:
    """When and how tasks are split.

    Attributes:
        when: After a search, instead of one, or never.
        subtasks: The folder of the sub-tasks' files; None to write none.
        library: The folder of solved sub-tasks; None to keep none.
    """

    when: When = "late"
    subtasks: str | None = None
    library: str | None = None

    def search_seconds(self, seconds: float) -> float:
        """How many of so many seconds are for the search of a task as a whole."""
        return {"first": 0.0, "never": seconds, "late": min(_SEARCH_SECONDS, seconds / 2)}[self.when]
