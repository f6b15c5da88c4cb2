"""Calls that move elements move their sources to the same places as PyTorch moves values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pipeline.lms.embedded.influence.arrays import Array, Unread, constant, unknown
from pipeline.lms.embedded.influence.calls import CALLS
from tests.support.perturbed import Shapes, holds

SHAPE = (2, 4, 6)
MOVED: list[tuple[str, tuple[Any, ...]]] = [
    ("view", (8, -1)), ("flatten", (1,)), ("flatten", (0, 1)), ("unflatten", (1, (2, 2))), ("unsqueeze", (-1,)),
    ("transpose", (1, 2)), ("permute", (2, 0, 1)), ("movedim", (0, -1)), ("flip", (1,)), ("roll", (2, 1)),
    ("narrow", (2, 1, 3)), ("select", (1, -1)), ("unfold", (2, 3, 2)), ("repeat", (1, 2, 1)),
    ("repeat_interleave", (2, 1)), ("diagonal", (0, 1, 2)),
]  # fmt: skip


def numbered(*shape: int) -> torch.Tensor:
    return torch.arange(1, int(np.prod(shape)) + 1).reshape(shape).double()


def as_sources(tensor: torch.Tensor) -> Array:
    return unknown(tensor.numpy().astype(np.uint64))


@pytest.mark.parametrize(("name", "args"), MOVED)
def test_elements_go_where_pytorch_moves_them(name: str, args: tuple[Any, ...]) -> None:
    """A tensor of numbers is moved by both."""
    x = numbered(*SHAPE)
    call: Callable[..., torch.Tensor] = getattr(torch.Tensor, name)
    assert CALLS[name](as_sources(x), *args).sources.tolist() == call(x, *args).long().tolist()


@pytest.mark.parametrize("edges", [(1, 2), (0, 0, 2, 0), (-1, 1)])
def test_padding_has_no_sources(edges: tuple[int, ...]) -> None:
    """It is at the same places as PyTorch's, where zeros are."""
    x = numbered(*SHAPE)
    assert CALLS["pad"](as_sources(x), edges).sources.tolist() == torch.nn.functional.pad(x, edges).long().tolist()


def test_pieces_and_joins_undo_each_other() -> None:
    """Chunks, slices and stacks."""
    x = as_sources(numbered(*SHAPE))
    assert CALLS["cat"](CALLS["chunk"](x, 3, 2), 2).sources.tolist() == x.sources.tolist()
    assert CALLS["stack"](CALLS["unbind"](x, 1), 1).sources.tolist() == x.sources.tolist()
    assert [part.shape for part in CALLS["split"](x, (1, 5), 2)] == [(2, 4, 1), (2, 4, 5)]


def test_triangles_lose_their_other_half() -> None:
    """What is not kept is a zero."""
    x = numbered(4, 4)
    assert CALLS["tril"](as_sources(x)).sources.tolist() == x.tril().long().tolist()
    assert CALLS["triu"](as_sources(x), 1).sources.tolist() == x.triu(1).long().tolist()


def test_masks_that_are_cut_or_padded_are_masks() -> None:
    """Their opposite is one, too."""
    mask = constant(np.ones((3, 3), bool))
    for made in (
        CALLS["tril"](mask),
        CALLS["triu"](mask, 1),
        CALLS["pad"](mask, (1, 1)),
        CALLS["block_diag"](mask, mask),
    ):
        assert made.truth


def test_an_index_of_constants_gathers_exactly_and_one_of_data_anything() -> None:
    """Both are of the index's shape."""
    x, places = numbered(2, 3), torch.tensor([[2, 0], [1, 1]])
    found = CALLS["gather"](as_sources(x), 1, constant(places.numpy()))
    assert found.sources.tolist() == x.gather(1, places).long().tolist()
    every = CALLS["gather"](as_sources(x), 1, unknown(np.full((2, 1), 8, np.uint64)))
    assert every.sources.tolist() == [[8 | 1 | 2 | 3], [8 | 4 | 5 | 6]]


def test_sizes_that_depend_on_data_are_unread() -> None:
    """And so are sizes without end."""
    with pytest.raises(Unread):
        CALLS["zeros"](as_sources(numbered(1)))
    with pytest.raises(Unread):
        CALLS["arange"](10**12)


CODES: list[tuple[str, Shapes]] = [
    ("torch.linalg.cholesky(torch.tril(x)+torch.tril(x,-1).T+9*torch.eye(3).double())", {"x": (3, 3)}),
    ("torch.linalg.solve_triangular(x.tril()+3*torch.eye(3).double(),y,upper=False)", {"x": (3, 3), "y": (3, 2)}),
    ("x.rot90(1,(0,1))", {"x": (4, 3)}),
    ("x.diag_embed()", {"x": (4, 3)}),
    ("torch.diag(x)", {"x": (6,)}),
    ("torch.diag(x)", {"x": (4, 4)}),
    ("torch.diag(x,1)", {"x": (6,)}),
    ("x.tril(-1)", {"x": (4, 4)}),
    ("torch.hstack((x,y))", {"x": (4, 3), "y": (4, 3)}),
    ("torch.vstack((x[0],y[0]))", {"x": (4, 3), "y": (4, 3)}),
    ("torch.dstack((x,y))", {"x": (4, 3), "y": (4, 3)}),
    ("torch.column_stack((x[:,0],y))", {"x": (4, 3), "y": (4, 3)}),
    ("torch.tensor_split(x,3)[1]", {"x": (4, 3)}),
    ("x.repeat_interleave(torch.tensor([1,0,2,1]),dim=0)", {"x": (4, 3)}),
    ("torch.cat([x,y],-1).chunk(3,-1)[1]", {"x": (4, 3), "y": (4, 3)}),
    ("x.swapdims(0,1).ravel()", {"x": (4, 3)}),
    ('torch.meshgrid(x[:,0],x[0],indexing="ij")[0]', {"x": (4, 3)}),
    ("x.unflatten(0,(2,2)).flatten(1)", {"x": (4, 3)}),
    ("torch.movedim(x,(0,1),(1,2))", {"x": (2, 4, 3)}),
    ("x.squeeze((0,))", {"x": (1, 4)}),
]


@pytest.mark.parametrize(("code", "shapes"), CODES)
def test_a_call_that_moves_elements_loses_no_source(code: str, shapes: Shapes) -> None:
    """Nor does it mix elements."""
    assert holds(code, shapes) > 0.9
