"""Parsing by Python's own grammar, for all program text and code: one thread at a time, and without warnings."""

from __future__ import annotations

import ast
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType

_LOCK = threading.RLock()
"""CPython 3.11 counts the depth of a syntax tree per process, and warnings filters are global too."""


BUILTINS = ("zip", "range", "enumerate", "reversed", "len", "list", "tuple")
"""The Python functions that a program may call."""

HUGE_INT = "an int of too many digits"


def parse_python(text: str) -> ast.Module:
    """The syntax tree of statements.

    Raises:
        SyntaxError, ValueError, MemoryError, RecursionError: The text is not Python, or nests too deep.
    """
    with _quiet():
        return ast.parse(text)


def parse_expression(text: str) -> ast.expr:
    """The syntax tree of one expression.

    Raises:
        SyntaxError, ValueError, MemoryError, RecursionError: The text is not an expression, or nests too deep.
    """
    with _quiet():
        return ast.parse(text, mode="eval").body


def compile_python(module: ast.Module, name: str) -> CodeType:
    """The code of statements, called `name` in tracebacks.

    Raises:
        SyntaxError, ValueError: They parse but do not compile, such as a `break` outside of a loop.
    """
    with _quiet():
        return compile(module, name, "exec")


@contextmanager
def _quiet() -> Iterator[None]:
    with _LOCK, warnings.catch_warnings():
        # A "\d" in an author's string is not worth a warning.
        warnings.simplefilter("ignore")
        try:
            yield
        except SyntaxError as error:
            # Python's own message is advice on how to set up the interpreter.
            if "set_int_max_str_digits" in error.msg:
                error.msg = HUGE_INT
                error.args = (HUGE_INT, *error.args[1:])
            raise
        except (MemoryError, RecursionError):
            # What CPython says of code that nests deeper than its parser or its compiler goes.
            raise RecursionError("it nests too deep") from None
