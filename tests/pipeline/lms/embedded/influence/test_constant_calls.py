"""Constants are those of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pipeline.lms.embedded.influence.arrays import Unread
from pipeline.lms.embedded.influence.constant_calls import CALLS


@pytest.mark.parametrize(
    ("name", "args"),
    [("arange", (1, 7, 2)), ("linspace", (0, 1, 5)), ("logspace", (0, 2, 3)), ("eye", (2, 3)), ("full", ((2, 2), 7)),
     ("ones", (2, 3)), ("hann_window", (6,)), ("hamming_window", (5, False)), ("bartlett_window", (4,)),
     ("blackman_window", (8,)), ("tensor", ([[1, 2], [3, 4]],))],
)  # fmt: skip
def test_values_are_those_of_pytorch(name: str, args: tuple[Any, ...]) -> None:
    """At the same places."""
    np.testing.assert_allclose(CALLS[name](*args).known(), getattr(torch, name)(*args).numpy(), atol=1e-6)


def test_constants_without_end_are_unread() -> None:
    """Before they are made."""
    for name in ("zeros", "arange", "eye", "hann_window"):
        with pytest.raises(Unread):
            CALLS[name](10**12)
