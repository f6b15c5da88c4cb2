"""The language NAME; `pipeline.languages.language` says what each member must keep."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.languages import Diagnostic, Language, Span, TextTask, Verdict, read_text_task

_LINE = re.compile(r"add (-?[0-9]{1,9})")


class NewLanguage(Language):
    """`executes` is True if `judge` runs programs as Python."""

    name = "NAME"
    stages: Sequence[str] = ("parse", "value")
    executes = False
    folder = Path(__file__).parent

    def task(self, text: str, name: str, source: str) -> TextTask:
        """The keys of a task's YAML, with their types."""
        return read_text_task(text, name, source, {"goal": str, "want": int})

    def check(self, task: TextTask, text: str) -> Sequence[Diagnostic]:
        """What the text shows to be wrong, with its place; runs nothing."""
        found = [
            Diagnostic("parse", "line", f"expected `add NUMBER`, found {line!r:.60}", Span(number, 1, number, len(line) + 1))
            for number, line in enumerate(text.splitlines(), 1)
            if not _LINE.fullmatch(line)
        ]
        return found if text.strip() else [Diagnostic("parse", "empty", "expected a line, found none")]

    def judge(self, task: TextTask, text: str, limits: Any) -> Verdict:
        """Right or wrong; a worker process calls this."""
        if found := self.check(task, text):
            return Verdict(passed=False, stage="parse", diagnostics=tuple(found))
        value = _value(text)
        if value == task.content["want"]:
            return Verdict(passed=True)
        found = Diagnostic("value", "value", f"expected {task.content['want']}, got {value}")
        return Verdict(passed=False, stage="value", diagnostics=(found,))

    def key(self, task: TextTask | None, text: str) -> str:
        """Equal for programs that mean the same, and for no others."""
        return f"value {_value(text)}" if all(map(_LINE.fullmatch, text.splitlines())) else f"text {text}"

    def structures(self, task: TextTask, text: str | None) -> frozenset[str]:
        """What makes tasks and programs alike: their nearest solved tasks become demonstrations."""
        return frozenset({"want a negative" if task.content["want"] < 0 else "want a positive"})


def _value(text: str) -> int:
    return sum(int(number) for number in _LINE.findall(text))


LANGUAGE = NewLanguage()
