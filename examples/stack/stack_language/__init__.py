"""A stack machine of five instructions, as a language of its own package.

`x` pushes the input, a number pushes itself, `dup` pushes the top once more, `add` and `mul` replace the two topmost by
their sum and product. A program is right if one value is left, and that is the task's polynomial of the input.

docs/languages.md walks through this file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from pipeline.languages import Diagnostic, Language, Span, TaskError, TextTask, Verdict, read_text_task

Polynomial = tuple[int, ...]
"""Coefficients, of x to the power 0 first, without zeros at the end."""

MOST_INSTRUCTIONS, HIGHEST_DEGREE = 200, 32
_WORD = re.compile(r"\S+")
_NUMBER = re.compile(r"-?[0-9]{1,6}")
_NAMES = ("x", "dup", "add", "mul")


class Broken(Exception):
    """A program that has no value: the message, the place, and the stage."""

    def __init__(self, stage: str, code: str, message: str, span: Span | None) -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic(stage, code, message, span)


class Stack(Language):
    """The language; `pipeline.languages.language` says what each member is."""

    name = "stack"
    stages: Sequence[str] = ("parse", "run", "value")
    folder = Path(__file__).parent

    def task(self, text: str, name: str, source: str) -> TextTask:
        """A task is a sentence and the coefficients of a polynomial."""
        task = read_text_task(text, name, source, {"goal": str, "coefficients": list})
        if not all(isinstance(each, int) for each in task.content["coefficients"]):
            raise TaskError(f"{source}:1: coefficients: expected whole numbers, of x to the power 0 first")
        return task

    def extract(self, answer: str) -> str:
        """The last fenced block; without one, the lines that hold instructions only; else the answer."""
        if "```" in answer:
            return super().extract(answer)
        lines = [line for line in answer.splitlines() if (words := line.split()) and all(map(_is_instruction, words))]
        return "\n".join(lines) + "\n" if lines else answer

    def check(self, task: TextTask, text: str) -> Sequence[Diagnostic]:
        """A diagnostic for each word that is not an instruction; for a program without words, one more."""
        words = [*_words(text)]
        found = [
            Diagnostic("parse", "instruction", f"expected x, a number, dup, add or mul, found {word!r}", span)
            for word, span in words
            if not _is_instruction(word)
        ]
        if not words:
            found.append(Diagnostic("parse", "empty", "expected an instruction, found none"))
        if len(words) > MOST_INSTRUCTIONS:
            message = f"expected at most {MOST_INSTRUCTIONS} instructions, found {len(words)}"
            found.append(Diagnostic("parse", "length", message))
        return found

    def judge(self, task: TextTask, text: str, limits: Any) -> Verdict:
        """Compares polynomials, so that a right program is right for every input."""
        if found := self.check(task, text):
            return Verdict(passed=False, stage="parse", diagnostics=tuple(found))
        try:
            value = _value(text)
        except Broken as error:
            return Verdict(passed=False, stage=error.diagnostic.stage, diagnostics=(error.diagnostic,))
        wanted = _trimmed(task.content["coefficients"])
        if value == wanted:
            return Verdict(passed=True)
        message = f"expected {_shown(wanted)}, got {_shown(value)}"
        return Verdict(passed=False, stage="value", diagnostics=(Diagnostic("value", "value", message),))

    def key(self, task: TextTask | None, text: str) -> str:
        """The polynomial; the words of a program that has none."""
        if not self._unreadable(text):
            try:
                return _shown(_value(text))
            except Broken:
                pass
        return f"words {' '.join(text.split())}"

    def structures(self, task: TextTask, text: str | None) -> frozenset[str]:
        """The task's degree, and the instructions of a program with their successors."""
        words = [] if text is None else ["number" if _NUMBER.fullmatch(word) else word for word in text.split()]
        degree = len(_trimmed(task.content["coefficients"])) - 1
        return frozenset({f"degree {degree}", *words, *(f"{a} > {b}" for a, b in pairwise(words))})

    def _unreadable(self, text: str) -> bool:
        words = text.split()
        return not 0 < len(words) <= MOST_INSTRUCTIONS or not all(map(_is_instruction, words))


def _is_instruction(word: str) -> bool:
    return word in _NAMES or _NUMBER.fullmatch(word) is not None


def _words(text: str) -> Iterator[tuple[str, Span]]:
    for number, line in enumerate(text.splitlines(), 1):
        for match in _WORD.finditer(line):
            yield match[0], Span(number, match.start() + 1, number, match.end() + 1)


def _value(text: str) -> Polynomial:
    """The polynomial that a program leaves on the stack; raises `Broken`."""
    stack: list[Polynomial] = []
    for word, span in _words(text):
        if word in _OPERATIONS or word == "dup":
            needed = 1 if word == "dup" else 2
            if len(stack) < needed:
                raise Broken("run", "underflow", f"{word} needs {needed} on the stack, there are {len(stack)}", span)
        if word == "dup":
            stack.append(stack[-1])
        elif word in _OPERATIONS:
            last, first = stack.pop(), stack.pop()
            if len(first) + len(last) > HIGHEST_DEGREE:
                raise Broken("run", "degree", f"expected a degree below {HIGHEST_DEGREE}", span)
            stack.append(_trimmed(_OPERATIONS[word](first, last)))
        else:
            stack.append((0, 1) if word == "x" else _trimmed([int(word)]))
    if len(stack) != 1:
        raise Broken("run", "left-over", f"expected one value at the end, found {len(stack)}", None)
    return stack[0]


def _sum(first: Polynomial, last: Polynomial) -> list[int]:
    size = max(len(first), len(last))
    return [sum(each[power] for each in (first, last) if power < len(each)) for power in range(size)]


def _product(first: Polynomial, last: Polynomial) -> list[int]:
    found = [0] * (len(first) + len(last))
    for power, factor in enumerate(first):
        for other, value in enumerate(last):
            found[power + other] += factor * value
    return found


_OPERATIONS: dict[str, Callable[[Polynomial, Polynomial], list[int]]] = {"add": _sum, "mul": _product}


def _trimmed(coefficients: Sequence[int]) -> Polynomial:
    found = [*coefficients]
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def _shown(value: Polynomial) -> str:
    return " + ".join(f"{factor} x^{power}" for power, factor in enumerate(value) if factor) or "0"


STACK = Stack()
