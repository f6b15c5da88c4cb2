"""The types of one task, numbered, with what can be done with them."""

from __future__ import annotations

from pipeline.lms.embedded.types.type_table import TypeTable
from step_runtime.base.types import Buffer, Multihot, Scalar, StreamType, STuple
from tests.support.samples import general_scope

SCOPE = general_scope()
F = Scalar("float")


def table() -> TypeTable:
    return TypeTable(SCOPE, {"E": 3})


def test_equal_types_have_one_number() -> None:
    """Inputs come first."""
    types = table()
    assert types.inputs == (0, 1, 2, 3)
    scalar = StreamType(F, (SCOPE.dims["M"], SCOPE.dims["N"]))
    assert types.intern(scalar) == 0 and types.outputs[1] == 0
    assert types.intern(StreamType(F, ())) == len(types.types) - 1


def test_a_stream_fits_what_its_element_and_dims_can_become() -> None:
    """At no distance as it is; farther where a dim has to be invented; not at all with another element."""
    types = table()
    buffers = Buffer(F, [SCOPE.dims["D"]])

    def fit(source: int, *need: object) -> tuple[int, float]:
        return types.fit(source, need, types.number(need))  # type: ignore[arg-type]

    assert fit(0, F) == (1, 0.0) and fit(1, buffers) == (1, 0.0)
    assert fit(2, F) == (0, 0.0)
    assert fit(3, Buffer(F, [SCOPE.dims["M"]]))[1] > 0
    pair = types.intern(StreamType(STuple((F, buffers)), (SCOPE.dims["N"],)))
    assert fit(pair, F, buffers) == (2, 0.0) and fit(pair, F, F) == (0, 0.0)


def test_streams_of_one_shape_join_without_coercions() -> None:
    """The cheapest way comes first; streams that cannot meet have none."""
    types = table()
    mul = SCOPE.fns["fn_mul"]
    first = types.joins((0, 0), [F, F], types.number((mul.input,)))[0]
    assert first.shape == types.types[0].shape and not any(coercion.ops for coercion in first.coercions)
    smaller = types.joins((0, 3), [F, F], types.number((F, F)))
    assert smaller and any(coercion.ops for coercion in smaller[0].coercions)
    assert [join.cost for join in smaller] == sorted(join.cost for join in smaller)


def test_a_stream_may_meet_itself_along_a_dim() -> None:
    """Then one of the two is repeated inside the dim, the other outside."""
    types = table()
    crossed = [join for join in types.joins((0, 0), [F, F], types.number((F, F))) if join.crossed]
    m, n = SCOPE.dims["M"], SCOPE.dims["N"]
    assert {join.shape for join in crossed} <= {(m, m, n), (m, n, n)} and crossed
    assert all(join.coercions[0] != join.coercions[1] for join in crossed)


def test_several_streams_may_meet_another_along_a_dim() -> None:
    """Of four, each on its own, and where the dim is one of pairs, also the first ones, or the last ones.

    Those are repeated outside, the others inside.
    """
    types = table()
    number = types.number((F, F, F, F))
    alone = [join for join in types.joins((0, 0, 0, 0), [F] * 4, number) if join.crossed]
    assert all(sum(way == join.coercions[0] for way in join.coercions) in (1, 3) for join in alone)
    pairing = frozenset((SCOPE.dims["M"],))
    crossed = [join for join in types.joins((0, 0, 0, 0), [F] * 4, number, (), pairing) if join.crossed in pairing]
    sides = {tuple(way == join.coercions[0] for way in join.coercions) for join in crossed}
    assert {(True, True, False, False), (True, False, False, False), (True, True, True, False)} <= sides
    assert (True, False, True, False) not in sides and (True, True, True, True) not in sides
    three = types.joins((0, 0, 0), [F] * 3, types.number((F, F, F)), (), pairing)
    assert len({join.coercions for join in three if join.crossed in pairing}) == 6


def test_a_stream_varies_along_either_of_two_like_dims() -> None:
    """Where another stream has both: elements of pairs meet those of one of the two."""
    types = table()
    m, n = SCOPE.dims["M"], SCOPE.dims["N"]
    pairs = types.intern(StreamType(F, (m, m, n)))
    joins = [join for join in types.joins((pairs, 0), [F, F], types.number((F, F))) if join.shape == (m, m, n)]
    assert len({join.coercions[1] for join in joins}) == 2 and all(not join.coercions[0].ops for join in joins)


def test_every_inner_dim_may_be_folded_and_ones_alone_are_not() -> None:
    """Folding all dims takes a placeholder outside."""
    types = table()
    ways = [(way.scan, way.b, way.placeholder) for way in types.folds((SCOPE.dims["M"], SCOPE.dims["N"]))]
    assert ways == [(False, 1, False), (True, 1, False), (False, 2, True), (True, 2, True)]
    assert types.folds(()) == ()


def test_bits_are_known_where_they_are_the_same_at_every_set_of_sizes() -> None:
    """Other types have none."""
    assert table().bits(Multihot("float", SCOPE.dims["E"])) == 3 == table().bits(Multihot("float", 3))
    assert TypeTable(SCOPE, {}).bits(Multihot("float", SCOPE.dims["E"])) is None and table().bits(F) is None
