"""What data select may be any candidate, and depends on the index."""

from __future__ import annotations

import pytest

from tests.support.perturbed import Shapes, holds

CASES: list[tuple[str, Shapes]] = [
    ("torch.zeros(4,3).double().scatter(0,torch.tensor([[1,0,2]]),x)", {"x": (4, 3)}),
    ("torch.zeros(5,3).double().scatter_add_(0,i[:,None].expand(-1,3),x)", {"x": (4, 3), "i": (5, 4)}),
    ("torch.zeros(5).double().index_add_(0,i,x)", {"x": (6,), "i": (5, 6)}),
    ("torch.zeros(5,3).double().index_add(0,torch.tensor([0,4,0,1]),x)", {"x": (4, 3)}),
    ('x.scatter_reduce(0,i[:,None].expand(-1,3),y,reduce="amax")', {"x": (4, 3), "y": (4, 3), "i": (4, 4)}),
    ("x.index_copy(0,torch.tensor([2,0]),y[:2])", {"x": (4, 3), "y": (4, 3)}),
    ("x.index_fill(1,torch.tensor([0]),0.0)", {"x": (4, 3)}),
    ("x.index_put((i,),y)", {"x": (4, 3), "y": (3,), "i": (4, 2)}),
    ("x.index_put_((torch.tensor([0,1]),torch.tensor([1,2])),torch.tensor(2.0).double())\nx", {"x": (4, 3)}),
    ("x.gather(1,i[:,None])", {"x": (4, 3), "i": (3, 4)}),
    ("torch.take_along_dim(x,x.argsort(1),1)", {"x": (4, 3)}),
    ("x.take_along_dim(i[None],0)", {"x": (4, 3), "i": (4, 3)}),
    ("x.gather(0,torch.tensor([[2,0,1],[1,1,1]]))", {"x": (4, 3)}),
    ("torch.take(x,i)", {"x": (4, 3), "i": (12, 3)}),
    ("F.embedding(i,x)", {"x": (4, 3), "i": (4, 5)}),
    ("F.one_hot(i,5)*x[:,:1]", {"x": (4, 3), "i": (5, 4)}),
    ("x.masked_scatter(x>0,y)", {"x": (4, 3), "y": (4, 3)}),
    ("x.masked_fill(m.bool(),0.5)", {"x": (4, 3), "m": (2, 4, 3)}),
    ("torch.where(m.bool(),x,0.0)", {"x": (4, 3), "m": (2, 4, 3)}),
    ("torch.block_diag(x,y)", {"x": (2, 3), "y": (2, 2)}),
    ("torch.searchsorted(torch.tensor([0.,1.,2.]).double(),x)", {"x": (4, 3)}),
    ("torch.searchsorted(x.sort(1).values,y)", {"x": (4, 3), "y": (4, 3)}),
    ("torch.bucketize(x,y)", {"x": (4,), "y": (3,)}),
    ("torch.histc(x,bins=5,min=-2,max=2)", {"x": (6,)}),
    ("torch.bincount(i,minlength=5)", {"i": (5, 6)}),
    ("torch.bincount(i,weights=x,minlength=5)", {"x": (6,), "i": (5, 6)}),
    ("torch.combinations(x,2)", {"x": (6,)}),
    ("torch.cartesian_prod(x[:2],x[2:5])", {"x": (6,)}),
    ("torch.isin(i,torch.tensor([1,2]))*1.0", {"i": (4, 5)}),
]


@pytest.mark.parametrize(("code", "shapes"), CASES)
def test_a_choice_loses_no_source(code: str, shapes: Shapes) -> None:
    """Nor does what an index replaces, adds or counts."""
    assert holds(code, shapes) > 0
