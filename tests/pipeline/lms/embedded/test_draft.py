"""Drafts grow move by move; routings know the orders of their branches."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.draft import Draft, Move, Routing
from step_runtime.base.types import Multihot
from tests.support.samples import general_scope

FNS = general_scope().fns
A, B, C, SUM, SQUARE = (FNS[f"fn_{name}"] for name in ("a", "b", "c", "sum", "square"))


@pytest.mark.parametrize(
    ("branches", "bits", "orders"), [((A, B), 2, 2), ((A, B), 3, 6), ((A,), 2, 2), ((A, B, C, A, B), 5, 0)]
)
def test_branches_stand_for_bits_in_every_order(branches: tuple, bits: int, orders: int) -> None:  # type: ignore[type-arg]
    """A bit without a branch lets its element pass; too many branches have too many orders."""
    routing = Routing(branches, SUM, Multihot("float", bits), bits)
    assert len(routing.orders()) == orders
    if orders:
        assert routing.orders()[0] == routing.passing() == (*branches, *[None] * (bits - len(branches)))


def test_a_move_knows_its_functions_and_what_applies_them() -> None:
    """Of a routing the branches, then the function that merges."""
    routing = Routing((A,), SUM, Multihot("float", 2), 2)
    routed = Move((None, A), (0, 1), (), 3, routing=routing)
    plain = Move((SQUARE,), (0,), (), 3)
    assert (list(routed.functions()), routed.maker) == ([A, SUM], routing)
    assert (list(plain.functions()), plain.maker) == ([SQUARE], SQUARE)
    assert plain.key == Move((SQUARE,), (0,), (), 3).key != Move((SQUARE,), (1,), (), 3).key


def test_a_draft_counts_every_use_of_its_streams() -> None:
    """A move that takes a stream twice uses it twice; its result is new and unused."""
    draft = Draft.start([5, 6])
    draft.add(Move((SQUARE,), (0,), (), 7))
    draft.add(Move((FNS["fn_mul"],), (2, 2), (), 8))
    assert (draft.streams, draft.uses) == ([5, 6, 7, 8], [1, 0, 2, 0])
    assert draft.keys == {move.key for move in draft.moves}
