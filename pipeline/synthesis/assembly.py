"""Assembles a program from the search's findings: equal nodes are merged, and Copies inserted."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.synthesis.bottom_up import BottomUp, RuleApplication, StreamRef
from pipeline.synthesis.lowering import ProgramBuilder, tidy
from pipeline.synthesis.rules import follow
from pipeline.synthesis.terms import RuleTerm, Term, TermWriter
from pipeline.synthesis.top_down import OutputContext, Subgoal, TopDown
from pipeline.synthesis.type_space import TypeSpace
from step_runtime.program.graph import Program, StreamId


class Meeting:
    """A stream made bottom-up that has the value of a subgoal found top-down."""

    def __init__(self, stream: StreamRef | RuleApplication, subgoal: Subgoal) -> None:
        self.stream = stream
        self.subgoal = subgoal


class Assembler:
    """Writes programs for the outputs of a task from meetings, one for each."""

    def __init__(self, space: TypeSpace, bottom_up: BottomUp, top_down: TopDown) -> None:
        self._space = space
        self._bottom_up = bottom_up
        self._top_down = top_down
        self._terms: dict[StreamRef, Term] = {}

    def output(self, subgoal: Subgoal) -> int:
        """The output that a subgoal serves."""
        context = self._top_down.context(subgoal)
        while not isinstance(context, OutputContext):
            context = self._top_down.context(context.wanted)
        return context.output

    def program(self, meetings: Sequence[Meeting]) -> Program:
        """The program that gives the outputs, in order."""
        writer = TermWriter(ProgramBuilder(self._space.scope))
        results = tuple(self._result(writer, meeting) for meeting in meetings)
        return tidy(writer.builder.program(results))

    def term(self, made: StreamRef | RuleApplication) -> Term:
        """How a stream is made, apart from the tables of streams."""
        if isinstance(made, RuleApplication):
            return RuleTerm(made.rule, tuple(self.term(stream) for stream in made.operands))
        if made not in self._terms:
            found = self._bottom_up.buckets[made.type][made.cost].made(made.row)
            self._terms[made] = self.term(found) if isinstance(found, RuleApplication) else found
        return self._terms[made]

    def _result(self, writer: TermWriter, meeting: Meeting) -> StreamId:
        stream = writer.stream(self.term(meeting.stream))
        context = self._top_down.context(meeting.subgoal)
        while not isinstance(context, OutputContext):
            parts = [writer.stream(self.term(other)) for other in context.others]
            parts.insert(context.hole, stream)
            stream = context.rule.write(writer.builder, parts)
            context = self._top_down.context(context.wanted)
        return follow(writer.builder, context.path, stream)
