"""Convolutions, pools, windows and resamplings take from where PyTorch's do."""

from __future__ import annotations

import pytest

from tests.support.perturbed import Shapes, holds

CASES: list[tuple[str, Shapes]] = [
    ("x.unfold(0,3,1)", {"x": (6,)}),
    ("x.as_strided((4,3),(1,1))", {"x": (6,)}),
    ("F.unfold(x,2)", {"x": (1, 2, 4, 4)}),
    ("F.unfold(x,(2,2),padding=1,stride=2)", {"x": (1, 2, 4, 4)}),
    ("F.fold(F.unfold(x,2),(4,4),2)", {"x": (1, 2, 4, 4)}),
    ("F.fold(F.unfold(x,3,padding=1,stride=2),(4,4),3,padding=1,stride=2)", {"x": (1, 2, 4, 4)}),
    ("F.max_pool2d(x,2)", {"x": (1, 2, 4, 4)}),
    ("F.avg_pool2d(x,3,1,1)", {"x": (1, 2, 4, 4)}),
    ("F.adaptive_avg_pool2d(x,3)", {"x": (1, 2, 4, 4)}),
    ("nn.MaxPool2d(2)(x)", {"x": (1, 2, 4, 4)}),
    ("F.interpolate(x,scale_factor=2)", {"x": (1, 2, 4, 4)}),
    ('F.interpolate(x,size=(3,6),mode="bilinear")', {"x": (1, 2, 4, 4)}),
    ('F.interpolate(x,size=(7,6),mode="bilinear",align_corners=True)', {"x": (1, 2, 4, 4)}),
    ('F.interpolate(x,size=(7,6),mode="bicubic")', {"x": (1, 2, 4, 4)}),
    ('F.interpolate(x,size=(3,2),mode="area")', {"x": (1, 2, 4, 4)}),
    ('F.interpolate(x,size=(7,6),mode="nearest-exact")', {"x": (1, 2, 4, 4)}),
    ("F.grid_sample(x,g.tanh(),align_corners=False)", {"x": (1, 1, 4, 4), "g": (1, 2, 3, 2)}),
    ("F.affine_grid(t,(1,1,2,3),align_corners=False)", {"t": (1, 2, 3)}),
    ('F.pad(x,(1,2),mode="reflect")', {"x": (4, 3)}),
    ('F.pad(x[None],(2,1),mode="circular")[0]', {"x": (4, 3)}),
    ('F.pad(x[None],(2,1),mode="replicate")', {"x": (4, 3)}),
    ("F.pad(x,(1,-1),value=2.0)", {"x": (4, 3)}),
    ("F.conv1d(x,w,padding=1)", {"x": (1, 2, 5), "w": (3, 2, 3)}),
    ('F.conv1d(x,w,stride=2,dilation=2,padding="valid")', {"x": (1, 2, 7), "w": (3, 2, 2)}),
    ('F.conv1d(x,w,groups=2,padding="same")', {"x": (1, 2, 5), "w": (2, 1, 3)}),
    ("F.conv2d(x,w)", {"x": (1, 2, 4, 4), "w": (1, 2, 2, 2)}),
    ("F.conv_transpose1d(x,w,stride=2,padding=1,output_padding=1)", {"x": (1, 2, 4), "w": (2, 3, 3)}),
    ("F.conv_transpose2d(x,w,stride=2)", {"x": (1, 2, 3, 3), "w": (2, 1, 2, 2)}),
    ("F.conv_transpose1d(x,w,groups=2,dilation=2)", {"x": (1, 2, 4), "w": (2, 2, 2)}),
    ("F.conv3d(x,w)", {"x": (1, 1, 3, 3, 3), "w": (1, 1, 2, 2, 2)}),
    ("F.avg_pool1d(x,2,2)", {"x": (2, 6)}),
    ("F.pixel_shuffle(x,2)", {"x": (1, 4, 2, 3)}),
    ("F.pixel_unshuffle(x,2)", {"x": (1, 1, 4, 6)}),
    ("F.conv1d(x,w)", {"x": (2, 5), "w": (3, 2, 2)}),
    ("F.local_response_norm(x,2)", {"x": (1, 4, 3)}),
]


@pytest.mark.parametrize(("code", "shapes"), CASES)
def test_a_window_loses_no_source(code: str, shapes: Shapes) -> None:
    """Strides, dilations and paddings included."""
    assert holds(code, shapes) > 0
