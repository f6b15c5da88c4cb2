"""Assembles a program from the search's findings: equal nodes are merged, and Copies inserted."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.lms.embedded.lowering import ProgramBuilder, tidy
from pipeline.synthesis.bottom_up import BottomUp, RuleApplication, StreamRef
from pipeline.synthesis.rules import follow
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

    def output(self, subgoal: Subgoal) -> int:
        """The output that a subgoal serves."""
        context = self._top_down.context(subgoal)
        while not isinstance(context, OutputContext):
            context = self._top_down.context(context.wanted)
        return context.output

    def program(self, meetings: Sequence[Meeting]) -> Program:
        """The program that gives the outputs, in order."""
        builder = ProgramBuilder(self._space.scope)
        results = tuple(self._result(builder, meeting) for meeting in meetings)
        return tidy(builder.program(results))

    def _result(self, builder: ProgramBuilder, meeting: Meeting) -> StreamId:
        found = meeting.stream
        stream = self._stream(builder, found) if isinstance(found, StreamRef) else self._made(builder, found)
        context = self._top_down.context(meeting.subgoal)
        while not isinstance(context, OutputContext):
            parts = [self._stream(builder, other) for other in context.others]
            parts.insert(context.hole, stream)
            stream = context.rule.write(builder, parts)
            context = self._top_down.context(context.wanted)
        return follow(builder, context.path, stream)

    def _made(self, builder: ProgramBuilder, made: RuleApplication) -> StreamId:
        return made.rule.write(builder, [self._stream(builder, stream) for stream in made.operands])

    def _stream(self, builder: ProgramBuilder, stream: StreamRef) -> StreamId:
        if not stream.cost:
            return [place for place, type_ in enumerate(self._space.inputs) if type_ == stream.type][stream.row]
        made = self._bottom_up.buckets[stream.type][stream.cost].made(stream.row)
        if made is None:
            raise ValueError("only inputs have no derivation")
        return self._made(builder, made)
