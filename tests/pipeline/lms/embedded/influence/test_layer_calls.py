"""Layers gather from where PyTorch's do: found by changing one element of the input at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.nn import functional

from pipeline.lms.embedded.influence.arrays import Array, constant, unknown
from pipeline.lms.embedded.influence.calls import CALLS
from pipeline.lms.embedded.influence.value_calls import mixed
from tests.support.perturbed import Shapes, holds

W = torch.rand(4, 2, 3) + 0.5
WIDE = torch.rand(4, 3) + 0.5
LAYERS: list[tuple[tuple[int, ...], Callable[[torch.Tensor], torch.Tensor], Callable[[Array], Array]]] = [
    ((2, 4, 7), lambda x: functional.conv1d(x, W, dilation=2, groups=2),
     lambda x: CALLS["conv1d"](x, weights(W), dilation=2, groups=2)),
    ((1, 2, 4, 4), lambda x: functional.conv2d(x, torch.ones(3, 2, 2, 2), stride=2, padding=1),
     lambda x: CALLS["conv2d"](x, weights(torch.ones(3, 2, 2, 2)), stride=2, padding=1)),
    ((2, 4, 3), lambda x: functional.group_norm(x, 2), lambda x: CALLS["group_norm"](x, 2)),
    ((2, 3, 4), lambda x: functional.layer_norm(x, (4,)), lambda x: CALLS["layer_norm"](x, (4,))),
    ((2, 3, 4), functional.instance_norm, CALLS["instance_norm"]),
    ((2, 3, 4), lambda x: functional.batch_norm(x, None, None, training=True),
     lambda x: CALLS["batch_norm"](x, None, None, training=True)),
    ((3, 4), lambda x: functional.max_pool1d(x * x, 2), lambda x: CALLS["max_pool1d"](x, 2)),
    ((2, 3), lambda x: torch.cdist(x, torch.zeros(2, 3)), lambda x: CALLS["cdist"](x, weights(torch.zeros(2, 3)))),
    ((2, 3), lambda x: functional.cross_entropy(x, torch.tensor([0, 1]), reduction="none"),
     lambda x: CALLS["cross_entropy"](x, weights(torch.zeros(2)), reduction="none")),
    ((3, 2), lambda x: functional.scaled_dot_product_attention(x, x, x, is_causal=True),
     lambda x: CALLS["scaled_dot_product_attention"](x, x, x, is_causal=True)),
    ((2, 3), lambda x: torch.einsum("nk,mk->nm", x, WIDE),
     lambda x: CALLS["einsum"]("nk, mk -> nm", x, weights(WIDE))),
    ((2, 3), lambda x: functional.linear(x, WIDE),
     lambda x: CALLS["linear"](x, weights(WIDE))),
]  # fmt: skip


def weights(tensor: torch.Tensor) -> Array:
    """Constants that are not known."""
    return unknown(np.zeros(tuple(tensor.shape), np.uint64))


@pytest.mark.parametrize(("shape", "layer", "read"), LAYERS)
def test_a_layer_depends_on_no_less_than_it_does(
    shape: tuple[int, ...],
    layer: Callable[[torch.Tensor], torch.Tensor],
    read: Callable[[Array], Array],
) -> None:
    """Each element of the input that changes an element of the result is among its sources; most are no others."""
    torch.manual_seed(0)
    count = int(np.prod(shape))
    bits = np.left_shift(np.uint64(1), np.arange(count, dtype=np.uint64))
    found = read(unknown(bits.reshape(shape))).sources
    changes = np.zeros(found.shape, np.uint64)
    for _ in range(2):
        x = torch.randn(shape, dtype=torch.double).float()
        before = layer(x)
        for place in range(count):
            other = x.clone()
            other.view(-1)[place] += 1.5
            differs = (layer(other) - before).abs() > 1e-6
            changes |= np.where(differs.numpy(), bits[place], np.uint64(0))
    assert not (changes & ~found).any()
    assert np.bitwise_count(changes).sum() >= 0.7 * np.bitwise_count(found).sum()


def test_cells_mix_a_step_with_its_state() -> None:
    """Every gate depends on the whole input and state; a cell keeps its own elements apart."""
    x, h, c = (unknown(np.array([bits], np.uint64)) for bits in ([1, 2], [4, 8], [16, 32]))
    after, cell = CALLS["lstm_cell"](x, (h, c), weights(torch.zeros(8, 2)), weights(torch.zeros(8, 2)))
    assert after.sources.tolist() == cell.sources.tolist() == [[15 | 16, 15 | 32]]
    assert mixed(x, h).sources.tolist() == [[5, 10]]


def test_a_mask_of_truth_values_selects_and_one_of_numbers_is_added() -> None:
    """Nothing is left of keys that are masked, either way."""
    x = unknown(np.array([[1, 2], [4, 8]], np.uint64))
    attend = CALLS["scaled_dot_product_attention"]
    kept = np.tril(np.ones((2, 2), bool))
    added = constant(np.where(kept, 0.0, -np.inf))
    assert attend(x, x, x, attn_mask=constant(kept)).sources.tolist() == attend(x, x, x, added).sources.tolist()
    assert attend(x, x, x, is_causal=True).sources.tolist() == [[3, 3], [15, 15]]


CODES: list[tuple[str, Shapes]] = [
    ("torch.gru_cell(x,h,w,u)", {"x": (1, 2), "h": (1, 2), "w": (6, 2), "u": (6, 2)}),
    ("torch.lstm_cell(x,(h,h*2),w,u)[0]", {"x": (1, 2), "h": (1, 2), "w": (8, 2), "u": (8, 2)}),
    ("torch.rnn_tanh_cell(x,h,w,u)", {"x": (2, 2), "h": (2, 3), "w": (3, 2), "u": (3, 3)}),
    ("F.scaled_dot_product_attention(x,y,y,is_causal=True)", {"x": (4, 3), "y": (4, 3)}),
    ("F.scaled_dot_product_attention(x,y,y,attn_mask=torch.ones(4,4).bool().tril())", {"x": (4, 3), "y": (4, 3)}),
    (
        'F.scaled_dot_product_attention(x,y,y,attn_mask=torch.zeros(4,4).double().masked_fill(torch.ones(4,4).bool().triu(1),float("-inf")))',
        {"x": (4, 3), "y": (4, 3)},
    ),
    ("F.scaled_dot_product_attention(x,y,y,enable_gqa=True)", {"x": (1, 4, 2, 2), "y": (1, 2, 3, 2)}),
    ("F.bilinear(x,y,w)", {"x": (2, 2), "y": (2, 3), "w": (2, 2, 3)}),
    (
        "torch.ops.aten.native_layer_norm_backward(x,y,[3],y.mean(-1,keepdim=True),1/y.std(-1,keepdim=True),w,None,[True,True,False])[0]",
        {"x": (4, 3), "y": (4, 3), "w": (3,)},
    ),
]


@pytest.mark.parametrize(("code", "shapes"), CODES)
def test_cells_and_products_lose_no_source(code: str, shapes: Shapes) -> None:
    """With masks and gates."""
    assert holds(code, shapes) > 0
