"""Collects what is found wrong on a walk over a program's syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from step_runtime.base.errors import Diagnostic, RuleError, Span, Stage

MOST = 100
"""Reports after which a walk ends, those of one place counted each time: a loop may meet a mistake often."""


class Stop(Exception):
    """Ends the walk: the program returned, or a limit was reached."""


class Wrong(Exception):
    """An expression or statement that is no program; the diagnostic is recorded already."""


class Findings:
    """The diagnostics of one text.

    Args:
        lines: the text that the tree was read from, line by line.
        indent: the columns that were cut off from every line before.
    """

    def __init__(self, lines: Sequence[str], indent: int) -> None:
        self.diagnostics: list[Diagnostic] = []
        self._lines = lines
        self._indent = indent
        self._count = 0

    def report(
        self, code: str, message: str, where: ast.AST | None, hint: str | None = None, stage: Stage = "parse"
    ) -> None:
        """Records a finding at a node of the tree, once.

        Raises:
            Stop: there are more than anyone would read.
        """
        self._add(Diagnostic(stage, code, message, self._span_or_none(where), hint=hint))

    def wrong(self, code: str, message: str, where: ast.AST, hint: str | None = None) -> Wrong:
        """Records a finding and gives the exception that ends its statement."""
        self.report(code, message, where, hint)
        return Wrong()

    def broken(self, error: RuleError, where: ast.AST) -> None:
        """Records a rule that a primitive's configuration or argument breaks."""
        self._add(Diagnostic.of("type", error, self.span(where)))

    def limit(self, code: str, message: str, where: ast.AST) -> Stop:
        """Records a limit that the program is past and gives the exception that ends the walk."""
        self.report(code, message, where, stage="limits")
        return Stop()

    def span(self, node: ast.AST) -> Span:
        """The place of a node, in characters of the program's own text."""
        # Statements and expressions have all four; nothing else is asked for.
        line, end_line = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        start = self._column(line, node.col_offset)  # type: ignore[attr-defined]
        return Span(line, start, end_line, self._column(end_line, node.end_col_offset))  # type: ignore[attr-defined]

    def _span_or_none(self, node: ast.AST | None) -> Span | None:
        return None if node is None else self.span(node)

    def _column(self, line: int, offset: int) -> int:
        """The 1-based column in characters; the tree counts bytes from the common indentation."""
        text = self._lines[line - 1]
        if not text.isascii():
            offset = len(text.encode()[:offset].decode(errors="ignore"))
        return offset + self._indent + 1

    def _add(self, finding: Diagnostic) -> None:
        self._count += 1
        if finding not in self.diagnostics:
            self.diagnostics.append(finding)
        if self._count >= MOST:
            raise Stop
