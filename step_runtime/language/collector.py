"""Collects a program's errors while its syntax tree is walked."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from step_runtime.base.errors import Diagnostic, RuleError, Span, Stage

MAX_REPORTS = 100
"""Reports after which a walk ends, repeated ones included: a loop may meet one mistake many times."""


class WalkEnded(Exception):
    """Ends the walk: the program has returned, or a limit was reached."""


class InvalidCode(Exception):
    """An expression or statement is outside the language; its diagnostic is already recorded."""


class DiagnosticCollector:
    """The diagnostics of one text, given by its lines, from which so many columns were removed."""

    def __init__(self, lines: Sequence[str], indent: int) -> None:
        self.diagnostics: list[Diagnostic] = []
        self._lines, self._indent, self._count = lines, indent, 0

    def span(self, node: ast.AST) -> Span:
        """The place of a node, in characters of the program's own text."""
        # Statements and expressions have all four; nothing else is passed here.
        line, end_line = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        start = self._column(line, node.col_offset)  # type: ignore[attr-defined]
        return Span(line, start, end_line, self._column(end_line, node.end_col_offset))  # type: ignore[attr-defined]

    def _column(self, line: int, offset: int) -> int:
        """The 1-based column in characters; the tree counts bytes from the common indentation."""
        text = self._lines[line - 1]
        if not text.isascii():
            offset = len(text.encode()[:offset].decode(errors="ignore"))
        return offset + self._indent + 1

    def report(
        self, code: str, message: str, where: ast.AST | None, hint: str | None = None, stage: Stage = "parse"
    ) -> None:
        """Records a finding at a node of the tree, once.

        Raises:
            WalkEnded: There are more findings than a reader can use.
        """
        span = None if where is None else self.span(where)
        self._add(Diagnostic(stage, code, message, span, hint=hint))

    def invalid(self, code: str, message: str, where: ast.AST, hint: str | None = None) -> InvalidCode:
        """Records a finding and returns the exception that ends its statement."""
        self.report(code, message, where, hint)
        return InvalidCode()

    def rule_broken(self, error: RuleError, where: ast.AST) -> None:
        """Records a rule that a primitive's configuration or argument breaks."""
        self._add(Diagnostic.of("type", error, self.span(where)))

    def limit_reached(self, code: str, message: str, where: ast.AST) -> WalkEnded:
        """Records a limit that the program exceeds and returns the exception that ends the walk."""
        self.report(code, message, where, stage="limits")
        return WalkEnded()

    def _add(self, finding: Diagnostic) -> None:
        self._count += 1
        if finding not in self.diagnostics:
            self.diagnostics.append(finding)
        if self._count >= MAX_REPORTS:
            raise WalkEnded
