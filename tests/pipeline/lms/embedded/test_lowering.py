"""From applications to a program: equal nodes are one, dead ones go, and Copies are inserted."""

from __future__ import annotations

from pipeline.lms.embedded.lowering import ProgramBuilder, route, structure, tidy, zipped
from step_runtime.primitives import Identity, Map
from step_runtime.program.printer import print_program
from step_runtime.verification.check import check_affine
from tests.support.habitual_tasks import ROUTED_VIEW
from tests.support.samples import general_scope

SCOPE = general_scope()
SQUARE, MUL, SUM = (SCOPE.fns[f"fn_{name}"] for name in ("square", "mul", "sum"))


def test_equal_nodes_are_made_once() -> None:
    """The same primitive on the same streams gives the same stream."""
    builder = ProgramBuilder(SCOPE)
    one, other = builder.add(Map(SQUARE), 0), builder.add(Map(SQUARE), 0)
    assert one == other == (4,) and builder.add(Map(SQUARE), 3) == (5,)
    assert len(builder.program((4,)).nodes) == 2 and str(builder.types[4]) == "fp32 [M, N]"


def test_a_tidy_program_has_no_dead_nodes_and_keeps_the_affine_rule() -> None:
    """Streams are renumbered in order."""
    builder = ProgramBuilder(SCOPE)
    builder.add(Identity(), 3)
    square = builder.add(Map(SQUARE), 0)[0]
    product = builder.add(Map(MUL), zipped(builder, [square, square]))[0]
    program = tidy(builder.program((product,)))
    assert not check_affine(program)
    assert [node.op.name for node in program.nodes] == ["Map", "Copy", "Zip", "Map"]
    assert [out for node in program.nodes for out in node.outputs] == list(range(4, 9))


def test_programs_with_the_same_nodes_have_one_structure() -> None:
    """The order of the nodes, and dead ones, make no difference; what a node takes and computes does."""
    builders = [ProgramBuilder(SCOPE) for _ in range(3)]
    for builder, streams in zip(builders, ((0, 3), (3, 0), (0, 0)), strict=True):
        for stream in streams:
            builder.add(Map(SQUARE), stream)
    first, second, third = (builder.program((builder.add(Map(SQUARE), 0)[0],)) for builder in builders)
    assert structure(first) == structure(second) == structure(third) and first != second
    others = [builders[0].program((stream,)) for stream in (0, 3, builders[0].add(Map(SQUARE), 3)[0])]
    assert len({structure(program) for program in (first, *others)}) == 4


def test_a_routing_is_partition_a_map_on_each_branch_and_merge() -> None:
    """A branch without a function lets its elements pass; the index stands last."""
    builder = ProgramBuilder(SCOPE)
    branches = [SCOPE.fns["fn_a"], None, SCOPE.fns["fn_b"]]
    text = print_program(tidy(builder.program((route(builder, branches, SUM, [3, 2]),))))
    assert [line.partition("step.")[2].partition(")")[0] for line in text.splitlines()[:-1]] == [
        "Copy(",
        "Partition(N=3",
        "Map(fn=fn_a",
        "Map(fn=fn_b",
        "Merge(fn=fn_sum",
    ]


def test_a_selection_takes_the_piece_of_each_stream_that_its_bit_stands_for() -> None:
    """The first stream's pieces where the first bit is set, the second one's where the second is."""
    builder = ProgramBuilder(ROUTED_VIEW.scope)
    one, two, add = (ROUTED_VIEW.scope.fns[f"fn_{name}"] for name in ("one", "two", "add"))
    streams = [builder.add(Map(fn), 0)[0] for fn in (one, two)]
    result = route(builder, (None, None), add, [*streams, 1], selects=True)
    *pieces, merge = builder.program((result,)).nodes[2:]
    assert [node.inputs for node in pieces] == [(streams[0], 1), (streams[1], 1)]
    assert merge.inputs == (pieces[0].outputs[0], pieces[1].outputs[1], 1)
