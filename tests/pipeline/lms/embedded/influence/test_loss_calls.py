"""Losses depend on what PyTorch's do, with any reduction."""

from __future__ import annotations

import pytest

from tests.support.perturbed import Shapes, holds

CASES: list[tuple[str, Shapes]] = [
    ('F.mse_loss(x,y,reduction="none")', {"x": (4, 3), "y": (4, 3)}),
    ("F.cross_entropy(x,i)", {"x": (4, 3), "i": (3, 4)}),
    ('F.cross_entropy(x,i,reduction="none",label_smoothing=0.1)', {"x": (4, 3), "i": (3, 4)}),
    ('F.nll_loss(F.log_softmax(x,1),i,reduction="none")', {"x": (4, 3), "i": (3, 4)}),
    ('F.nll_loss(x,i,reduction="none")', {"x": (4, 3), "i": (3, 4)}),
    ('F.kl_div(x,y.exp(),reduction="batchmean")', {"x": (4, 3), "y": (4, 3)}),
    ("F.huber_loss(x,y)", {"x": (4, 3), "y": (4, 3)}),
    ('nn.MSELoss(reduction="sum")(x,y)', {"x": (4, 3), "y": (4, 3)}),
    ("nn.BCEWithLogitsLoss()(x,m.double())", {"x": (4, 3), "m": (2, 4, 3)}),
    ('F.triplet_margin_loss(x,y,y.flip(0),reduction="none",margin=9.0)', {"x": (4, 3), "y": (4, 3)}),
    ('F.cosine_embedding_loss(x,y,torch.ones(4),reduction="none")', {"x": (4, 3), "y": (4, 3)}),
    (
        'F.ctc_loss(x.log_softmax(-1),torch.tensor([[1,2]]),torch.tensor([4]),torch.tensor([2]),reduction="none")',
        {"x": (5, 1, 3)},
    ),
    ('F.gaussian_nll_loss(x,y,torch.ones(4,3).double(),reduction="none")', {"x": (4, 3), "y": (4, 3)}),
    ('F.margin_ranking_loss(x,y,torch.ones(4,3).double(),margin=9.,reduction="none")', {"x": (4, 3), "y": (4, 3)}),
    ("F.poisson_nll_loss(x,y)", {"x": (4, 3), "y": (4, 3)}),
    ('F.multi_margin_loss(x,i,reduction="none",margin=9.)', {"x": (4, 3), "i": (3, 4)}),
]


@pytest.mark.parametrize(("code", "shapes"), CASES)
def test_a_loss_loses_no_source(code: str, shapes: Shapes) -> None:
    """Rows are reduced where the loss compares rows."""
    assert holds(code, shapes) > 0
