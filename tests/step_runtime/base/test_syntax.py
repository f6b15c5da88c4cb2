"""Python's grammar, read from many threads.

Invariant: what one thread reads never disturbs another, nor the process's warnings.
"""

import ast
import sys
import threading
import warnings

import pytest

from step_runtime.base.syntax import compile_python, parse_expression, parse_python


def test_many_threads_read_at_once() -> None:
    """Deep texts are read from many threads, however often they take turns."""
    text = "x = " + "[" * 60 + "1" + "]" * 60
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(40):
                ast.dump(parse_python(text))
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures


def test_odd_strings_warn_nobody() -> None:
    """A backslash that Python would warn of is read in silence, and the filters are left as they were."""
    before = list(warnings.filters)
    assert compile_python(parse_python("x = '\\d'"), "<text>") and isinstance(parse_expression("'\\d'"), ast.Constant)
    assert warnings.filters == before


@pytest.mark.parametrize("text", ["x = (", "\0", "(" * 5000, "\ud800"])
def test_what_is_not_python_is_refused(text: str) -> None:
    """Text outside of the grammar raises one of the documented errors."""
    for read in (parse_python, parse_expression):
        with pytest.raises((SyntaxError, ValueError, MemoryError, RecursionError)):
            read(text)


def test_what_parses_need_not_compile() -> None:
    """Statements out of their place are found when they are compiled."""
    with pytest.raises(SyntaxError):
        compile_python(parse_python("break"), "<text>")
