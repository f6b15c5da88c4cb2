"""Lists, dictionaries and texts behave as Python's; where data choose an element, it may be any."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.lms.embedded.influence.arrays import Unread, constant, unknown
from pipeline.lms.embedded.influence.sequences import called_on, item_of, of_data, plain, set_item

ONE, TWO = (unknown(np.array(bit, np.uint64)) for bit in (1, 2))


def test_methods_are_those_of_python() -> None:
    """Constants count as numbers."""
    items: list[Any] = [3, constant(5.0)]
    assert called_on(items, "index", [5], {}) == 1 and called_on({"a": 1}, "items", [], {}) == [("a", 1)]
    assert called_on({}, "get", ["a", 2], {}) == 2 and called_on("a-b", "split", ["-"], {}) == ["a", "b"]
    assert plain(constant(2.0)) == 2 and of_data([ONE]) and not of_data([1, constant(2.0)])
    with pytest.raises(Unread):
        called_on("text", "encode", [], {})


def test_an_element_that_data_choose_may_be_any() -> None:
    """To find it, to take it out, and to replace it."""
    assert called_on([0, 1], "index", [ONE], {}).sources == 1
    items: list[Any] = [ONE, TWO, 3]
    assert called_on(items, "pop", [TWO], {}).sources == 3 and [item.sources for item in items] == [3, 3]
    called_on(items, "insert", [ONE, 7], {})
    assert [item.sources for item in items] == [3, 3, 3]
    assert item_of([ONE, TWO], unknown(np.array(4, np.uint64))).sources == 7 and item_of({2: ONE}, constant(2.0)) is ONE


def test_replacing_an_element() -> None:
    """Of a list or a dictionary, at a place that is known or not."""
    items: list[Any] = [1, 2]
    set_item(items, 0, ONE)
    assert items == [ONE, 2]
    set_item(items, TWO, 5)
    assert [item.sources for item in items] == [3, 2]
    with pytest.raises(Unread):
        set_item((1, 2), 0, 1)
