"""Values become what JSON can hold, whatever they are, and the same in every process."""

import json
from typing import Any

import dspy
import numpy as np
from pydantic import BaseModel

from optimizers import TokenCount
from optimizers.jsonable import to_jsonable
from tests.support.scripted_program import Heard


class Point(BaseModel):
    x: int


class Holder(BaseModel):
    held: Any


def test_values_of_any_kind_become_jsonable() -> None:
    value = {"p": Point(x=1), "e": dspy.Example(a=Point(x=2)), "s": {2, 1}, "t": (1, None), 3: b"x"}
    out = to_jsonable(value)
    assert (out["p"], out["e"], out["s"], out["t"]) == ({"x": 1}, {"a": {"x": 2}}, [1, 2], [1, None])
    assert json.dumps(out) and to_jsonable(Heard) == str(Heard)
    assert to_jsonable(Holder(held=len)) == "held=<built-in function len>"


def test_a_token_count_keeps_its_columns_that_are_not_zero() -> None:
    assert to_jsonable({"solve": TokenCount(calls=2, usd=0.5)}) == {"solve": {"calls": 2, "usd": 0.5}}


def test_sets_are_in_the_order_of_their_text() -> None:
    assert to_jsonable({"b", "a", "c"}) == ["a", "b", "c"]


def test_arrays_are_their_elements_and_none_is_left_out():
    """Tasks are named by this text, and the text of a long array omits its middle."""
    assert to_jsonable({"x": np.array([[1, 2], [3, 4]]), "n": np.int64(5)}) == {"x": [[1, 2], [3, 4]], "n": 5}
    one, other = np.zeros(5_000), np.zeros(5_000)
    other[2_500] = 1.0
    assert str(one) == str(other) and to_jsonable(one) != to_jsonable(other)
