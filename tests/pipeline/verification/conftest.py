"""Tests of pools and their limits start their own."""

import pytest


@pytest.fixture
def warm_pools() -> None:
    """None."""
