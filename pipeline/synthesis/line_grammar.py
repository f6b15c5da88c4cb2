"""The grammar of lines: what solved tasks say about a line of another program, as bits; no line's text matters."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.synthesis.fingerprints import fingerprints_of
from pipeline.synthesis.grammar import Grammar
from pipeline.synthesis.plans import NotAPlan, plan_of
from pipeline.synthesis.precedents import nearest, productions_of, profile_of
from step_runtime.language.parser import parse
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import SolvedTask, Task

_MOST = 8
"""Precedents that count, the most relevant ones."""
_NO_PLAN = 20.0


class LineGrammar:
    """Bits of the lines of one task's programs: a function, its form, its operands, and what is repeated."""

    def __init__(self, task: Task, solved: Sequence[SolvedTask]) -> None:
        self._scope = static_scope(task)
        self._fingerprints = fingerprints_of(task, self._scope.fns)
        self._grammar = Grammar(self._scope, self._fingerprints, nearest(solved, profile_of(task), _MOST))

    def bits(self, text: str, line: str) -> float:
        """Bits of a line after others; of a `return` one for each primitive above it."""
        choices = line.count("\n")
        program, _ = parse(f"{text}{line}\n", self._scope)
        if program.results:
            return float(choices)
        try:
            plan, found = plan_of(program, self._scope)
        except NotAPlan:
            return _NO_PLAN
        types = [type_ for type_ in found if type_ is not None]
        *_, made = productions_of(plan, types, self._scope, self._fingerprints)
        return self._grammar.line(plan.steps[-1].fn.label, made, choices)
