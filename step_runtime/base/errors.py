"""The errors of the language, and their form.

    StepError
    ├── ChipError            a chip's file is wrong
    ├── TaskError            a task file is wrong: names the file, the place in it, what was expected
    │   └── TaskCodeError    a snippet of the task (function, `global`, reference) failed when it ran
    └── RuleError            a primitive's precondition does not hold
        └── RunError         the same, found only when the program ran on data

    UserWarning
    └── TaskWarning          a task's verdicts may be worth less than they seem

A wrong candidate program never raises in the caller of `verify`: it yields `Diagnostic`s, which are written for people
and for an LM that repairs its own program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

Stage = Literal["parse", "type", "affine", "limits", "shape", "run", "value", "cost", "stress"]
STAGES: tuple[Stage, ...] = ("parse", "type", "affine", "limits", "shape", "run", "value", "cost", "stress")

NON_FINITE = "non-finite-reference"
UNKNOWN = frozenset({
    "time-limit", "memory-limit", "crashed", "killed", "lost-before", "internal", "untried-sizes", NON_FINITE,
})  # fmt: skip
"""Codes of findings that say nothing of the program: a limit ended its run, the worker or the verifier failed, it
changes at sizes where it could not be tried, or the reference has no numbers where they differ. It does not pass, and
is not wrong either."""

_LONGEST_TEXT = 400
"""Characters shown of an author's exception or value."""
_LONGEST_LINE = 160
"""Characters of a source line that a diagnostic shows."""
_LONGEST_PART = 2_000
"""Characters of a diagnostic's message, and of each of its details."""


class StepError(Exception):
    """Root of this package's exceptions."""


class ChipError(StepError):
    """A chip's file cannot be used; the message names the file, the key in it and what was expected."""


class TaskError(StepError):
    """A task file cannot be used; the message names the file, the place in it and what was expected.

    `location` is the place, such as `("outputs", 0, "data_transform", 1)`, if the line is not known yet.
    """

    def __init__(self, message: str, location: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.location = location


class TaskCodeError(TaskError):
    """Code of the task's author failed or returned something other than what the task declares."""


class TaskWarning(UserWarning):
    """A task's verdicts may be worth less than they seem, or a right program may fail.

    Attributes:
        code: A short stable name such as `equal-dims`.
        message: What is doubtful, without the file's name.
        location: The place in the task, such as `("inputs", 0)`; empty for the task as a whole.
        line: The line of that place in the task's file; None if it is not known.
    """

    def __init__(self, code: str, message: str, location: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.location = location
        self.line: int | None = None

    def placed(self, path: str, line: int) -> TaskWarning:
        """The same warning about a file; its text begins with the path."""
        placed = TaskWarning(self.code, self.message, self.location)
        placed.args, placed.line = (f"{path}: {self.message}",), line
        return placed


class RuleError(StepError):
    """A primitive's precondition does not hold.

    Attributes:
        code: A short stable name such as `zip-shape`.
        message: What is wrong.
        details: Both sides of the rule, one string each.
        hint: A likely repair.
    """

    def __init__(self, code: str, message: str, details: Iterable[str] = (), hint: str | None = None) -> None:
        self.code = code
        self.message = message
        self.details = tuple(details)
        self.hint = hint
        lines = [f"{code}: {message}", *self.details]
        super().__init__("\n  ".join([*lines, f"hint: {hint}"] if hint else lines))

    def about(self, streams: Iterable[tuple[str, object]]) -> RuleError:
        """The same error with the streams concerned, by name and type, as an additional detail."""
        types = "; ".join(f"{name}: {stream}" for name, stream in streams)
        return type(self)(self.code, self.message, (*self.details, types), self.hint)


class RunError(RuleError):
    """The data breaks a rule, such as a `Merge` whose stream has too few slices."""


@dataclass(frozen=True)
class Span:
    """A piece of program text; lines and columns count from 1, and the end column is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class Diagnostic:
    """One finding about a program, at the stage that found it.

    `stage` is one of `STAGES`, or of another language's; `details` are the lines that show both sides of the rule;
    `hint` is a likely repair.
    """

    stage: str
    code: str
    message: str
    span: Span | None = None
    details: tuple[str, ...] = ()
    hint: str | None = None

    def __post_init__(self) -> None:
        """Shortens texts that are too long to read, such as a type of very many dims."""
        object.__setattr__(self, "message", shortened(self.message))
        if any(len(detail) > _LONGEST_PART for detail in self.details):
            object.__setattr__(self, "details", tuple(map(shortened, self.details)))

    @classmethod
    def of(cls, stage: str, error: RuleError, span: Span | None) -> Diagnostic:
        """The diagnostic of a rule broken at `span`."""
        return cls(stage, error.code, error.message, span, error.details, error.hint)

    def moved(self, lines: int, columns: int = 0) -> Diagnostic:
        """The same finding in a text shifted by this many lines and columns."""
        if self.span is None:
            return self
        s = self.span
        return replace(self, span=Span(s.line + lines, s.column + columns, s.end_line + lines, s.end_column + columns))

    def render(self, text: str, name: str = "program") -> str:
        """The finding as `name:line:column: code: message`, the source line with carets, details and hint."""
        where = f"{name}:{self.span.line}:{self.span.column}" if self.span else name
        lines = [f"{where}: {self.code}: {self.message}", *_source_with_carets(text, self.span)]
        lines += [f"  {detail}" for detail in self.details]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


def _source_with_carets(text: str, span: Span | None) -> list[str]:
    # Python's grammar ends lines only at these; str.splitlines has more.
    source = re.split(r"\r\n|\r|\n", text)
    if span is None or not 1 <= span.line <= len(source):
        return []
    line = source[span.line - 1].rstrip()
    end = span.end_column if span.end_line == span.line else len(line) + 1
    start = min(span.column, len(line) + 1)
    line, start, end = _around(line, start, min(end, len(line) + 1))
    # Tabs stay tabs under the source line, so that the carets are below the source.
    pad = "".join("\t" if char == "\t" else " " for char in line[: start - 1])
    indent = len(line) - len(line.lstrip())
    return [f"  {line[indent:]}", f"  {pad[indent:]}{'^' * max(1, end - start)}"]


def _around(line: str, start: int, end: int) -> tuple[str, int, int]:
    """A line and a stretch of its columns, the line cut around the stretch's start if it is too long to show."""
    if len(line) <= _LONGEST_LINE:
        return line, start, end
    first = max(0, min(start - 1 - _LONGEST_LINE // 2, len(line) - _LONGEST_LINE))
    last = first + _LONGEST_LINE
    before, after = "…" * (first > 0), "…" * (last < len(line))
    moved = len(before) - first
    return f"{before}{line[first:last]}{after}", start + moved, min(end, last + 1) + moved


def describe_error(error: BaseException) -> str:
    """An exception of an author's code as one line of bounded length, even if its class misbehaves."""
    # Of torch's complaint about arguments, what was given is enough: all that it takes is 300 characters.
    message = _one_line(lambda: str(error), "it cannot say why").partition(", but expected one of: * (")[0]
    # A class's name may be a property of its metaclass, which may fail.
    name = _one_line(lambda: type(error).__name__, "an exception")
    return f"{name}: {message}" if message else name


def out_of_memory(error: BaseException | None) -> bool:
    """Whether an error is Python's or torch's for a failed memory allocation."""
    # On a CPU, torch has no separate class for it.
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and "allocate memory" in describe_error(error)
    )


def describe_value(value: object) -> str:
    """A value of an author's code as one line of bounded length, even if its class misbehaves."""
    return _one_line(lambda: repr(value), "a value that cannot be shown")


def _one_line(text: Callable[[], str], otherwise: str) -> str:
    try:
        words = str.split(str.__getitem__(text(), slice(10 * _LONGEST_TEXT)))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return otherwise
    # Unprintable characters may end a terminal's line, or not be valid UTF-8.
    line = "".join(char if char.isprintable() else repr(char)[1:-1] for char in " ".join(words))
    return line if len(line) <= _LONGEST_TEXT else f"{line[:_LONGEST_TEXT]}…"


def shortened(text: str) -> str:
    """The text, of a long one its beginning and its end."""
    half = _LONGEST_PART // 2
    return text if len(text) <= _LONGEST_PART else f"{text[:half]} … {text[-half:]}"


def quantity(number: int, noun: str) -> str:
    """A number with its noun, such as `1 input` and `2 inputs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
