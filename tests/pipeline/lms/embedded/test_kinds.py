"""Kinds know structure and nothing of names."""

from __future__ import annotations

import sympy

from pipeline.lms.embedded.kinds import Context, kind_of, map_kind, structure_kind
from step_runtime.base.shapes import as_dim
from step_runtime.base.types import Buffer, Multihot, Scalar, StreamType, STuple
from step_runtime.primitives import Bufferize, Flatten, Promote, Repeat, Streamify
from tests.support.samples import general_scope

F = Scalar("float")
M, N, ONE = as_dim(sympy.Symbol("M")), as_dim(sympy.Symbol("N")), as_dim(1)
CONTEXT = Context.of([StreamType(F, (N, ONE))], frozenset({"fn_sum"}))


def test_a_type_is_known_without_its_dims() -> None:
    """But for their number."""
    assert [kind_of(each) for each in (F, Buffer(F, [M]), Buffer(F, [N, N]), Multihot("float", 3))] == [
        "s",
        "s1",
        "s2",
        "m",
    ]
    assert kind_of(STuple((F, Buffer(F, [M])))) == "[s,s1]"
    assert map_kind(general_scope().fns["fn_scale"]) == ("Map", "[s,s1]", "s1")


def test_a_fold_is_known_by_its_state_and_by_whether_the_outputs_keep_its_dims() -> None:
    """Ones are not dims of the outputs."""
    fns = general_scope().fns
    assert frozenset({N}) == CONTEXT.kept
    assert CONTEXT.fold_kind(True, fns["fn_sum"], [N]) == ("Scan", "emits", "kept")
    assert CONTEXT.fold_kind(False, fns["fn_sumbuffer"], [N, M]) == ("Accum", "value", "gone")


def test_a_structural_primitive_is_known_by_what_becomes_of_the_dims() -> None:
    """A Repeat by whether its dim is one of the outputs', a Flatten by whether it only removes a 1."""
    two, padded = StreamType(F, (M, N)), StreamType(F, (ONE, N))

    def kind(op: object, source: StreamType = two, result: StreamType = two) -> tuple[str, ...]:
        return structure_kind(op, source, CONTEXT, result)  # type: ignore[arg-type]

    assert [kind(Promote(2)), kind(Promote(0))] == [("Promote", "outside"), ("Promote", "inside")]
    assert kind(Repeat(N), result=StreamType(F, (N, M))) == ("Repeat", "kept")
    assert kind(Repeat(M), result=StreamType(F, (M, N))) == ("Repeat", "gone")
    assert [kind(Flatten([1]), padded), kind(Flatten([1]))] == [("Flatten", "padding"), ("Flatten", "dims")]
    assert [kind(Bufferize(1)), kind(Streamify())] == [("Bufferize", "1"), ("Streamify",)]
