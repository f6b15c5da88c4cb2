"""From what the search found to a program: a graph in which equal nodes are one, with the Copies it needs."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.lms.embedded.moves import Graph, tidy
from pipeline.synthesis.backward import Backward, Ending, Subgoal
from pipeline.synthesis.forward import Forward, Made, Stream
from pipeline.synthesis.rules import follow
from pipeline.synthesis.space import Space
from step_runtime.program.graph import Program, StreamId


class Meeting:
    """A stream made bottom-up that has the value of a subgoal found top-down."""

    def __init__(self, stream: Stream | Made, subgoal: Subgoal) -> None:
        self.stream = stream
        self.subgoal = subgoal


class Builder:
    """Writes programs for the outputs of a task from meetings, one for each."""

    def __init__(self, space: Space, forward: Forward, backward: Backward) -> None:
        self._space = space
        self._forward = forward
        self._backward = backward

    def output(self, subgoal: Subgoal) -> int:
        """The output that a subgoal serves."""
        around = self._backward.around(subgoal)
        while not isinstance(around, Ending):
            around = self._backward.around(around.wanted)
        return around.output

    def program(self, meetings: Sequence[Meeting]) -> Program:
        """The program that gives the outputs, in order."""
        graph = Graph(self._space.scope)
        results = tuple(self._result(graph, meeting) for meeting in meetings)
        return tidy(graph.program(results))

    def _result(self, graph: Graph, meeting: Meeting) -> StreamId:
        found = meeting.stream
        stream = self._stream(graph, found) if isinstance(found, Stream) else self._made(graph, found)
        around = self._backward.around(meeting.subgoal)
        while not isinstance(around, Ending):
            parts = [self._stream(graph, other) for other in around.others]
            parts.insert(around.hole, stream)
            stream = around.rule.write(graph, parts)
            around = self._backward.around(around.wanted)
        return follow(graph, around.plan, stream)

    def _made(self, graph: Graph, made: Made) -> StreamId:
        return made.rule.write(graph, [self._stream(graph, stream) for stream in made.operands])

    def _stream(self, graph: Graph, stream: Stream) -> StreamId:
        if not stream.cost:
            return [place for place, type_ in enumerate(self._space.inputs) if type_ == stream.type][stream.row]
        made = self._forward.buckets[stream.type][stream.cost].made(stream.row)
        if made is None:
            raise ValueError("only inputs have no origin")
        return self._made(graph, made)
