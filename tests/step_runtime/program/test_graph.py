"""A program as a graph: names of streams, their consumers and what its results depend on."""

from step_runtime.base.errors import Span
from step_runtime.primitives import PRIMITIVES
from step_runtime.program.graph import Node, Program

COPY, IDENTITY, ZIP = (PRIMITIVES[name]() for name in ("Copy", "Identity", "Zip"))
PROGRAM = Program(
    ("E0", "E1"),
    (Node(COPY, (0,), (2, 3)), Node(IDENTITY, (1,), (4,)), Node(ZIP, (2, 2), (5,)), Node(IDENTITY, (3,), (6,))),
    (5,),
    {2: "left"},
)


def test_a_stream_has_the_text_s_name_else_the_task_s_else_its_number() -> None:
    """Inputs that a text does not rename keep the task's names."""
    assert [PROGRAM.name(stream) for stream in (0, 2, 3)] == ["E0", "left", "stream 3"]


def test_every_use_of_a_stream_counts() -> None:
    """A node that takes one stream twice consumes it twice; an unused stream has no entry."""
    uses = PROGRAM.consumers()
    assert {stream: len(nodes) for stream, nodes in uses.items()} == {0: 1, 1: 1, 2: 2, 3: 1}
    assert uses[2] == [PROGRAM.nodes[2]] * 2


def test_live_nodes_are_those_that_a_result_depends_on() -> None:
    """Last first, without what is computed for nothing."""
    assert list(PROGRAM.live_nodes()) == [PROGRAM.nodes[2], PROGRAM.nodes[0]]


def test_places_and_names_do_not_make_another_program() -> None:
    """Equality is that of inputs, nodes and results alone."""
    moved = tuple(Node(node.op, node.inputs, node.outputs, Span(9, 1, 9, 2)) for node in PROGRAM.nodes)
    assert Program(PROGRAM.inputs, moved, PROGRAM.results) == PROGRAM
    assert Program(PROGRAM.inputs, moved[:2], PROGRAM.results) != PROGRAM
