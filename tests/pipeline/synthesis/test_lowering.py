"""From applications to a program: equal nodes are one, dead ones go, and Copies are inserted."""

from pipeline.synthesis.lowering import ProgramBuilder, route, tidy, zipped
from step_runtime.primitives import Identity, Map
from step_runtime.program.printer import print_program
from step_runtime.verification.check import check_affine
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
