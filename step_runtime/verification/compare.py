"""When two outputs count as equal, and how they differ where they do not (paper, Section 4.3)."""

from __future__ import annotations

import torch
from torch import Tensor


def close(result: Tensor, reference: Tensor) -> bool:
    """Whether two tensors agree within `torch.testing.assert_close`'s tolerance for their dtype; NaN equals NaN."""
    if torch.equal(result, reference):
        return True
    try:
        torch.testing.assert_close(result, reference, equal_nan=True)
    except AssertionError:
        return False
    return True


def difference(result: Tensor, reference: Tensor) -> str | None:
    """How a result differs from its reference, or None where it is close to it."""
    if result.shape != reference.shape:
        return f"has shape {tuple(result.shape)}, expected {tuple(reference.shape)}"
    if close(result, reference):
        return None
    bad = ~torch.isclose(result, reference, rtol=1e-7, atol=1e-7, equal_nan=True)
    odd = int((~torch.isfinite(result) & torch.isfinite(reference)).sum())
    place = tuple(int(i) for i in (bad if bad.any() else result != reference).nonzero()[0])
    found, expected = _apart(float(result[place]), float(reference[place]))
    extra = f", {odd} of them NaN or infinite" if odd else ""
    first = f"first at {list(place)}: {found}, expected {expected}"
    return f"differs from the reference in {int(bad.sum())} of {bad.numel()} numbers{extra}; {first}"


def _apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers that differ, to six digits or as many as tell them apart."""
    texts = [(f"{one:.{digits}g}", f"{other:.{digits}g}") for digits in range(6, 18)]
    return next((pair for pair in texts if pair[0] != pair[1]), texts[-1])
