"""What a run teaches the typed proposer beside its demonstrations: from all of its experience, without a token."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from optimizers import Attempt, Entry
from pipeline.languages.language import Language
from signatures.lines import Lessons


class LineLessons(Lessons):
    """Lessons of one run; they change only between iterations, so that a sample depends on no other in flight."""

    def __init__(self, language: Language) -> None:
        self._language, self._read = language, 0
        self._solved: tuple[tuple[Any, str], ...] = ()
        self._refused = defaultdict[str, set[str]](set)
        super().__init__(self._bits, self._was_refused)

    def __deepcopy__(self, memo: dict[int, Any]) -> LineLessons:
        return self  # copies of an agent learn together

    def learn(self, solved: Mapping[str, Entry], attempts: Sequence[Attempt]) -> None:
        """See `optimizers.Domain`: the share of repeats is that of solved tasks, one with and one without added."""
        self._solved = tuple((each.inputs["task"], str(each.outputs["impl"])) for each in solved.values())
        repeating = sum(self._language.repeats(*each) > 0 for each in self._solved)
        self.again = (repeating + 1) / (len(self._solved) + 2)
        for attempt in (attempts[place] for place in range(self._read, len(attempts))):
            if attempt.scored and not attempt.passed and "impl" in attempt.outputs:
                self._refused[attempt.task_key].add(self._language.key(None, str(attempt.outputs["impl"])))
        self._read = len(attempts)

    def _bits(self, task: Any, text: str, lines: Sequence[str]) -> Sequence[float]:
        return self._language.line_bits(task, text, lines, self._solved)

    def _was_refused(self, task: Any, text: str) -> bool:
        refused = self._refused.get(task.name, ())
        return bool(refused) and self._language.key(None, self._language.repaired(task, text) or text) in refused
