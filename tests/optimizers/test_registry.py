"""Optimizers are found by name."""

import pytest

from optimizers import OptimizerError, UnknownOptimizerError, registry


def test_optimizers_are_found_by_name():
    assert [registry.get(name).__name__ for name in ("adaptive", "none")] == ["AdaptiveFewShot", "SinglePass"]
    with pytest.raises(UnknownOptimizerError, match="'best'; expected one of adaptive, bootstrap, gepa") as caught:
        registry.get("best")
    assert isinstance(caught.value, OptimizerError) and isinstance(caught.value, ValueError)
