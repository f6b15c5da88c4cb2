"""The registry of primitives, and the facts that stand on them.

Invariants: every name of the language is listed once and public; printing, comparing, classing and bounding a program
ask its primitives, and know none of them by name.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import step_runtime as step
from pipeline.agent.domain import program_class
from step_runtime.base.errors import RuleError
from step_runtime.base.shapes import Sizes, routed_dim
from step_runtime.base.types import Scalar, StreamType
from step_runtime.language.canonical import describe
from step_runtime.primitives import PRIMITIVES, Kind, Primitive
from step_runtime.primitives.token_times import Pace
from step_runtime.program.graph import Node, Program
from step_runtime.program.limits import Limits, check_size
from step_runtime.program.printer import print_program


@dataclass(frozen=True)
class Fork(Primitive):
    """A primitive that the packages have never seen: three streams of one."""

    kind: ClassVar[Kind] = "copy"
    transparent: ClassVar[bool] = True
    lists_results: ClassVar[bool] = False

    def infer(self, inputs: Sequence[StreamType], rules: Any) -> tuple[StreamType, ...]:
        return (inputs[0],) * 3

    def run(self, inputs: Any, outputs: Any, frame: Any) -> Any:
        return (inputs[0].data,) * 3


@dataclass(frozen=True)
class Sift(Fork):
    """Another: a list of three streams, each with a dim that only the data decides, at most ten."""

    kind: ClassVar[Kind] = "route"
    transparent: ClassVar[bool] = False
    lists_results: ClassVar[bool] = True
    reshapes: ClassVar[bool] = True
    may_fail: ClassVar[bool] = True

    def dim_bounds(self, inputs: Sequence[StreamType], outputs: Sequence[StreamType], bounds: Sizes) -> Sizes:
        return {output.shape[-1].name: 10 for output in outputs}


def _program(op: Primitive) -> Program:
    return Program(("E0",), (Node(op, (0,), (1, 2, 3)),), (0, 2))


def test_every_primitive_is_listed_once_and_public() -> None:
    """`step.NAME` in a program and in Python are the same; an alias has the name of what it stands for."""
    assert set(PRIMITIVES) < set(step.__all__)
    for name, primitive in PRIMITIVES.items():
        assert getattr(step, name) is primitive and name in step.__all__
        assert PRIMITIVES[primitive.__name__] is primitive
        assert issubclass(primitive, Primitive)


def test_every_primitive_has_a_rule_on_time() -> None:
    """One from elsewhere may lack it, which is an error only where its time is asked for."""
    assert all(primitive.schedule is not Primitive.schedule for primitive in PRIMITIVES.values())
    with pytest.raises(RuleError, match="Fork has no rule on time"):
        Fork().schedule([], [], Pace({}))


@pytest.mark.parametrize("primitive", PRIMITIVES.values(), ids=lambda primitive: primitive.__name__)
def test_facts_agree_with_each_other(primitive: type[Primitive]) -> None:
    """What takes a function computes or routes; a copy is transparent; what hints write has enough streams."""
    assert ("fn" in primitive.config_names()) <= (primitive.kind in ("compute", "route"))
    assert ("fn" in primitive.config_names()) >= (primitive.kind == "compute")
    assert primitive.transparent or primitive.kind != "copy"
    assert primitive.argument.count("E") >= primitive.arity
    assert not (primitive.zips and primitive.arity > 1)


def test_results_are_printed_and_classed_by_what_the_primitive_says() -> None:
    """Names or a list; copying makes a program reuse, reshaping makes it shape-manipulating."""
    assert print_program(_program(Fork())) == "E1, E2, E3 = step.Fork().apply(E0)\nreturn E0, E2\n"
    assert print_program(_program(Sift())) == "E1 = step.Sift().apply(E0)\nreturn E0, E1[1]\n"
    assert (program_class(_program(Fork())), program_class(_program(Sift()))) == ("AR", "S1")


def test_what_computes_nothing_does_not_count() -> None:
    """A transparent primitive leaves no trace in a graph's key; one that may fail does, even where it is unused."""
    bare = Program(("E0",), (), (0, 0))
    assert describe(_program(Fork())).key() == describe(bare).key()
    unused = Program(("E0",), (Node(Sift(), (0,), (1, 2, 3)),), (0, 0))
    assert describe(unused).key() != describe(bare).key()


def test_dims_are_bounded_by_what_the_primitive_says() -> None:
    """The bytes of a stream count the most that its own dims can be."""
    types = [StreamType(Scalar("float"), (routed_dim(number),)) for number in range(4)]
    program = _program(Sift())
    sizes = {"routed.0": 1}
    assert check_size(program, types, sizes, Limits(bytes=8 * 31), 8) == []
    assert [found.code for found in check_size(program, types, sizes, Limits(bytes=8 * 31 - 1), 8)] == ["bytes"]
