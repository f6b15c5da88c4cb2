"""A verified program, simplified: every rewrite is verified before it takes the text's place."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.rewriting.readable_text import readable_text
from pipeline.rewriting.rewrites import bare, rewrites
from step_runtime.language.parser import parse
from step_runtime.program.graph import Program
from step_runtime.program.printer import print_program
from step_runtime.tasks.scope import Scope, static_scope
from step_runtime.tasks.task import Task
from step_runtime.verification.check import insert_copies

MOST_TRIES = 150
"""Rewrites verified for one program, at most."""


def simplified(task: Task, text: str, passes: Callable[[str], bool]) -> str:
    """A simpler and more readable text of a program that passes, or the text itself.

    It passes, and has no more lines of code than the text.

    The result passes, and has no more lines of code than the text.
    """
    scope = static_scope(task)
    program, wrong = parse(text, scope)
    if wrong:
        return text
    reduced = insert_copies(_reduced(bare(program), scope, passes))
    # The last is for a text that only repeats a computation, which `bare` shares, to pass.
    candidates = (readable_text(reduced, scope), print_program(reduced), readable_text(program, scope))
    for candidate in dict.fromkeys(candidates):
        if code_lines(candidate) <= code_lines(text) and passes(candidate):
            return candidate
    return text


def annotated(task: Task, text: str) -> str:
    """A program's text with its streams named by what made them, and their types as comments.

    The text itself, if it does not parse or would have more lines of code.
    """
    scope = static_scope(task)
    program, wrong = parse(text, scope)
    candidate = text if wrong else readable_text(program, scope)
    return candidate if code_lines(candidate) <= code_lines(text) else text


def _reduced(program: Program, scope: Scope, passes: Callable[[str], bool]) -> Program:
    """The program after rewrites that pass, one after the other."""
    tried: set[str] = set()
    while True:
        for rewritten in rewrites(program, scope):
            try:
                candidate = bare(rewritten)
            except KeyError:
                continue  # it left out what something else needs
            text = print_program(insert_copies(candidate))
            if text in tried:
                continue
            if len(tried) == MOST_TRIES:
                return program
            tried.add(text)
            if len(candidate.nodes) < len(program.nodes) and passes(text):
                program = candidate
                break
        else:
            return program


def code_lines(text: str) -> int:
    """Lines that are neither empty nor a comment."""
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in text.splitlines())
