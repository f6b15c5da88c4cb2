"""Computes in float64, as a verifier does."""

from collections.abc import Iterator

import pytest
import torch

from tests.support.element_functions import LOG, SETTINGS, WEIGHTS, D


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    """Computes in float64, with weights and settings as at first."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    WEIGHTS.update(W=torch.randn(D, D), w=torch.randn(D))
    SETTINGS["scale"] = 3.0
    LOG.clear()
    with torch.no_grad():
        yield
    torch.set_default_dtype(torch.float32)
