"""The names of calls are PyTorch's, and each has one meaning."""

from __future__ import annotations

import itertools

import torch

from pipeline.lms.embedded.dependence import names

GROUPS = {
    "same": names.SAME, "zeros": names.ZEROS, "constant": names.CONSTANT, "joined": names.JOINED,
    "summed": names.SUMMED, "products": names.PRODUCTS, "contractions": names.CONTRACTIONS, "largest": names.LARGEST,
    "ordered": names.ORDERED, "compared": names.COMPARED, "equal": names.EQUAL, "indices": names.INDICES,
    "rounded": names.ROUNDED, "positions": names.POSITIONS,
}  # fmt: skip


def test_each_call_has_one_meaning() -> None:
    """No name is in two groups, and no alias is a name of its own."""
    for one, other in itertools.combinations(GROUPS, 2):
        assert not GROUPS[one] & GROUPS[other], (one, other)
    assert not names.ALIASES.keys() & set().union(*GROUPS.values())
    assert names.LIMITS < names.LARGEST
    assert names.PAIRS < names.LARGEST | names.ORDERED


def test_what_calls_do_that_only_change_the_shape() -> None:
    """Calls of tensors that are read as their first argument keep all its elements, or some, or set some to zero."""
    x = torch.arange(1.0, 13.0).reshape(3, 4)
    arguments = {"reshape": (4, 3), "repeat": (2, 1), "roll": (1,), "narrow": (0, 1, 2), "chunk": (2,), "split": (2,)}
    for name in ("reshape", "repeat", "roll", "narrow", "tril", "triu", "diag", "t", "ravel", "chunk", "split"):
        assert name in names.SAME
        found = getattr(x, name)(*arguments.get(name, ()))
        whole = torch.cat([part.flatten() for part in found]) if isinstance(found, tuple) else found
        assert set(whole.flatten().tolist()) <= {0.0, *x.flatten().tolist()}
