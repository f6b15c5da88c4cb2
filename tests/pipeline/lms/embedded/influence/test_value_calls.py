"""Calls that compute depend on what PyTorch's do."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.lms.embedded.influence.arrays import Unread, as_array, constant, unknown
from pipeline.lms.embedded.influence.calls import CALLS
from tests.support.perturbed import Shapes, holds

X = unknown(np.array([[1, 2, 4], [8, 16, 32]], np.uint64))


def test_element_by_element_nothing_else_is_mixed_in() -> None:
    """Whatever the function is."""
    for name in ("exp", "relu", "gelu", "round", "sqrt"):
        assert CALLS[name](X).sources.tolist() == X.sources.tolist()
    assert CALLS["clamp"](X, min=0).sources.tolist() == X.sources.tolist()
    assert CALLS["clamp_max"](constant([1, 5]), 2).known().tolist() == [1, 2]


def test_along_a_dim_all_of_it_counts() -> None:
    """A pair gives values and indices that depend on the same."""
    assert CALLS["mean"](X, -1, keepdim=True).sources.tolist() == [[7], [56]]
    values, places = CALLS["max"](X, 1)
    assert values.sources.tolist() == places.sources.tolist() == [7, 56]
    assert CALLS["max"](X, as_array(0.0)).sources.tolist() == X.sources.tolist()
    assert CALLS["topk"](X, 2)[0].sources.tolist() == [[7, 7], [56, 56]]
    assert CALLS["cummax"](X, 1)[0].sources.tolist() == [[1, 3, 7], [8, 24, 56]]
    assert CALLS["softmax"](X, 0).sources.tolist() == [[9, 18, 36]] * 2


def test_more_elements_than_there_are_are_unread() -> None:
    """As PyTorch refuses them."""
    with pytest.raises(Unread):
        CALLS["topk"](X, 4)


CODES: list[tuple[str, Shapes]] = [
    ("torch.sort(x,dim=0).indices", {"x": (4, 3)}),
    ("x.topk(2).values", {"x": (4, 3)}),
    ("x.max(dim=1).indices", {"x": (4, 3)}),
    ("x.min(0)[0]", {"x": (4, 3)}),
    ("x.median(dim=1).values", {"x": (4, 3)}),
    ("x.mode(1).values", {"x": (4, 3)}),
    ("torch.aminmax(x,dim=1).max", {"x": (4, 3)}),
    ("x.kthvalue(2,dim=0).values", {"x": (4, 3)}),
    ("v,i=x.topk(2,dim=1)\nx.gather(1,i)*v", {"x": (4, 3)}),
    ("x.quantile(0.5,dim=1)", {"x": (4, 3)}),
    ("x.std(0)", {"x": (4, 3)}),
    ("torch.var_mean(x,dim=1)[1]", {"x": (4, 3)}),
    ("x.logsumexp(1)", {"x": (4, 3)}),
    ("x.cummax(0).values", {"x": (4, 3)}),
    ("x.diff(dim=0)", {"x": (4, 3)}),
    ("torch.trapezoid(x,dim=1)", {"x": (4, 3)}),
    ("torch.cumulative_trapezoid(x,dim=0)", {"x": (4, 3)}),
    ("x.cumprod(0)", {"x": (4, 3)}),
    ("x.logcumsumexp(1)", {"x": (4, 3)}),
    ("F.glu(x.repeat(1,2))", {"x": (4, 3)}),
    ("x.nan_to_num()", {"x": (4, 3)}),
    ("torch.renorm(x,2,0,0.5)", {"x": (4, 3)}),
]


@pytest.mark.parametrize(("code", "shapes"), CODES)
def test_a_call_along_a_dim_loses_no_source(code: str, shapes: Shapes) -> None:
    """Whatever it computes."""
    assert holds(code, shapes) > 0
