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
    ("x[:int(i[0]),0].sum()", {"x": (4, 3), "i": (5, 1)}),
    (
        "z=torch.zeros(4,3).double()\nfor b in range(4):\n    k=int(i[b])\n    z[b,:k]=x[b,:k]*2\nz",
        {"x": (4, 3), "i": (4, 4)},
    ),
    ("z=x.clone()\nk=int(i[0])\nz[k:]=0\nz", {"x": (4, 3), "i": (5, 1)}),
    ("z=x.clone()\nk=int(i[0])\nz[:,:k]+=1\nz", {"x": (4, 3), "i": (4, 1)}),
    ("k=int(i[0])\nx[:,k:].sum(1)", {"x": (4, 3), "i": (4, 1)}),
    ("k=int(i[0])\nx[k:k+2].sum(0)", {"x": (4, 3), "i": (3, 1)}),
    ("z=x.clone()\nz[x>0]=y[x<0].sum()\nz", {"x": (4, 3), "y": (4, 3)}),
    ("z=x.clone()\nz[x>0]*=2\nz", {"x": (4, 3)}),
    ("m=x>0\nz=x.clone()\nz[m]=y[m]-x[m]\nz", {"x": (4, 3), "y": (4, 3)}),
    ("z=x.clone()\nm=y[:,0]>0\nz[m]=z[m]*2\nz", {"x": (4, 3), "y": (4, 3)}),
    ("z=x.clone()\nm=y[0]>0\nz[:,m]=z[:,m]*2\nz", {"x": (4, 3), "y": (4, 3)}),
    ("z=x.clone()\nz[x[:,0]>0,1]+=y[0,0]\nz", {"x": (4, 3), "y": (4, 3)}),
    ("k=int(i[0])\nx[:,:k].flip(1).sum(1)+x[:,:k].amax(1) if k else x.sum(1)", {"x": (4, 3), "i": (4, 1)}),
    (
        "z=torch.zeros(4).double()\nfor b in range(4):\n"
        "    z[b]=torch.softmax(torch.cat((x[b,:1],x[b,1:1+int(i[b])])),0).square().sum()\nz",
        {"x": (4, 3), "i": (3, 4)},
    ),
]


@pytest.mark.parametrize(("code", "shapes"), CASES)
def test_an_index_loses_no_source(code: str, shapes: Shapes) -> None:
    """Integers, slices, arrays and masks in any order, as PyTorch takes them."""
    assert holds(code, shapes) > 0


def test_constants_replace_exactly() -> None:
    """The tensor itself does not change."""
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


def test_masks_of_the_same_data_may_differ() -> None:
    """What one selects may be put anywhere by another one."""
    x, y = (unknown(np.array(bits, np.uint64)) for bits in ([1, 2], [4, 8]))
    assert replaced(x, truths(y), selected(x, truths(unknown(y.sources)))).sources.tolist() == [15, 15]
