"""Conversions keep sources, and convert constants."""

from __future__ import annotations

import pytest

from tests.support.perturbed import Shapes, holds

CASES: list[tuple[str, Shapes]] = [
    ("x.round().to(torch.int8).double()", {"x": (4, 3)}),
    ("(i & 1)*x", {"x": (4, 3), "i": (8, 3)}),
    ("x[torch.arange(4)^1]", {"x": (4, 3)}),
    ("x*(torch.arange(4)[:,None]>>1)", {"x": (4, 3)}),
    ("x*(torch.arange(4)[:,None]&1)", {"x": (4, 3)}),
    ("(~(x>0)).double()", {"x": (4, 3)}),
    ("x*(~torch.tensor([True,False,True]))", {"x": (4, 3)}),
    ("x[~torch.tensor([True,False,True,False])]", {"x": (4, 3)}),
    ("x.masked_fill(torch.ones(4,3).bool().tril(),torch.finfo(torch.float32).min)", {"x": (4, 3)}),
    ("torch.softmax(x.masked_fill(torch.ones(4,4).bool().triu(1),torch.finfo(x.dtype).min),-1)", {"x": (4, 4)}),
    ('torch.div(x,2,rounding_mode="trunc")', {"x": (4, 3)}),
    ("x.float().view(torch.int32)>>3", {"x": (4, 3)}),
    ("(x>0)|(y>0)", {"x": (4, 3), "y": (4, 3)}),
    ("(x>0)^(y>0)", {"x": (4, 3), "y": (4, 3)}),
    ("i<<2|1", {"i": (4, 3)}),
    ("x.sign()*x.abs().log2().floor().exp2()", {"x": (4, 3)}),
    ("torch.where(x>0,x,torch.zeros_like(x))", {"x": (4, 3)}),
    ("(x>0).all(0)", {"x": (4, 3)}),
    ("torch.tensor(x[0].tolist())", {"x": (4, 3)}),
    ("torch.ones(4,3,dtype=torch.bool).tril()*x", {"x": (4, 3)}),
    ("x*torch.eye(4,3,dtype=torch.bool)", {"x": (4, 3)}),
    ("i//2*2+i%2", {"i": (6, 4)}),
    ("x*math.sqrt(3)+math.log(2)", {"x": (4, 3)}),
    ("x*max(2,3)*min(x.shape)", {"x": (4, 3)}),
    ("x[:max(1,int(math.log2(4)))]", {"x": (4, 3)}),
    ("x.clamp(min=0).clamp(max=y)", {"x": (4, 3), "y": (4, 3)}),
    ("torch.logical_xor(x>0,y>0)", {"x": (4, 3), "y": (4, 3)}),
    ('torch.tensor([1.0,2.0,float("inf")]).double()*x', {"x": (4, 3)}),
    ("x.type(torch.float32).long()", {"x": (4, 3)}),
    ('torch.full((4,3),float("-inf")).double().triu(1)+x', {"x": (4, 3)}),
]


@pytest.mark.parametrize(("code", "shapes"), CASES)
def test_a_conversion_loses_no_source(code: str, shapes: Shapes) -> None:
    """Bits, limits of types and truth values included."""
    assert holds(code, shapes) > 0
