"""Indices of constants select exactly; those of data may select anything along their dims."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.lms.embedded.influence.arrays import Unread, constant, pointwise, truths, unknown
from pipeline.lms.embedded.influence.indexing import replaced, selected
from tests.support.perturbed import Shapes, holds

CASES: list[tuple[str, Shapes]] = [
    ("x[i]", {"x": (4, 3), "i": (4, 3)}),
    ("x[:,i]", {"x": (4, 3), "i": (3, 5)}),
    ("x[torch.arange(4),i]", {"x": (4, 3), "i": (3, 4)}),
    ("x[i,torch.arange(3)]", {"x": (4, 3), "i": (4, 3)}),
    ("x[i[:,None],j]", {"x": (4, 3), "i": (4, 2), "j": (3, 3)}),
    ("x[:, [0,2]]", {"x": (4, 3)}),
    ("x[[0,1],[1,2]]", {"x": (4, 3)}),
    ("x[torch.tensor([True,False,True,True])]", {"x": (4, 3)}),
    ("x[:,torch.arange(3)>0]", {"x": (4, 3)}),
    ("x[0,:,i]", {"x": (2, 4, 3), "i": (3, 2)}),
    ("x[i,:,j]", {"x": (2, 4, 3), "i": (2, 2), "j": (3, 2)}),
    ("x[:,i,None,1:]", {"x": (2, 4, 3), "i": (4, 2)}),
    ("x[...,i]", {"x": (2, 4, 3), "i": (3, 2)}),
    ("x[i[0]]", {"x": (4, 3), "i": (4, 3)}),
    ("x[1][2]", {"x": (4, 3)}),
    ("x[-1,::2]", {"x": (4, 3)}),
    ("x.flip(0)[1:, -1]", {"x": (4, 3)}),
    ("x[range(3),range(3)]", {"x": (4, 3)}),
    ("x[x>0].sum()", {"x": (4, 3)}),
    ("x[m.bool()].mean()", {"x": (4, 3), "m": (2, 4, 3)}),
    ("x[x[:,0]>0].sum(0)", {"x": (4, 3)}),
    ("(x>0).nonzero().sum(0)", {"x": (4, 3)}),
    ("x[torch.where(x>0)].sum()", {"x": (4, 3)}),
    ("torch.masked_select(x,x>0).sum()", {"x": (4, 3)}),
]


@pytest.mark.parametrize(("code", "shapes"), CASES)
def test_an_index_loses_no_source(code: str, shapes: Shapes) -> None:
    """Integers, slices, arrays and masks in any order, as PyTorch takes them."""
    assert holds(code, shapes) > 0


def test_constants_replace_exactly() -> None:
    """The tensor itself stays as it was."""
    x = unknown(np.array([[1, 2], [4, 8]], np.uint64))
    assert replaced(x, (0, slice(None)), 0).sources.tolist() == [[0, 0], [4, 8]] and x.sources[0, 0] == 1
    assert replaced(x, constant([0, 0]), x, added=True).sources.tolist() == [[5, 10], [4, 8]]


def test_a_mask_replaces_element_by_element() -> None:
    """What one mask selects, and is put back by the same mask, keeps its places."""
    x, y = (unknown(np.array(bits, np.uint64)) for bits in ([1, 2, 4], [8, 16, 32]))
    mask = truths(y)
    assert replaced(x, mask, pointwise(np.square, selected(x, mask))).sources.tolist() == [9, 18, 36]


@pytest.mark.parametrize("index", ["text", (0, 0, 0), 1.5, {}])
def test_other_indices_are_unread(index: object) -> None:
    """Of an unknown kind, or of too many dims."""
    with pytest.raises(Unread):
        selected(unknown(np.ones((2, 2), np.uint64)), index)
