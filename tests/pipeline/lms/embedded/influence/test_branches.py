"""What either of two branches leaves may be left."""

from __future__ import annotations

from collections import ChainMap

import numpy as np
import pytest

from pipeline.lms.embedded.influence.arrays import Array, Unread, unknown
from pipeline.lms.embedded.influence.branches import (
    MISSING,
    any_of,
    copied,
    either_of,
    same_names,
    scope_with,
    settle,
)

TEST = unknown(np.array(8, np.uint64))
ONE, TWO = (unknown(np.array(bit, np.uint64)) for bit in (1, 2))


def test_values_that_differ_depend_on_the_decision() -> None:
    """Element by element of containers; equal ones stay as they are."""
    first, second = either_of(TEST, [ONE, 1.0], [TWO, 1.0])
    assert first.sources == 11 and second == 1.0
    assert either_of(TEST, ONE, ONE) is ONE and either_of(TEST, [ONE], [ONE, TWO]) is MISSING
    assert either_of(TEST, {"a": 1}, {"a": 2})["a"].sources == 8 and either_of(TEST, "a", "b") is MISSING


def test_branches_do_not_see_each_other() -> None:
    """Lists are copied, also where two names share one."""
    shared = [ONE]
    env = ChainMap({"a": shared, "b": shared}, {"c": ONE})
    own = copied(env)[0]
    own["a"].append(TWO)
    assert own["a"] is own["b"] and len(shared) == 1 and not same_names(env, own)
    settle(env, TEST, own, copied(env)[0])
    assert env["a"] is MISSING and env["c"] is ONE and same_names(env, copied(env)[0])
    assert scope_with(env, "c") is env.maps[1] and scope_with(env, "new") is env.maps[0]


def test_one_of_several_values() -> None:
    """Of one shape."""
    chosen = any_of([ONE, TWO], TEST)
    assert isinstance(chosen, Array) and chosen.sources == 11
    with pytest.raises(Unread):
        any_of([ONE, unknown(np.ones(2, np.uint64))])
