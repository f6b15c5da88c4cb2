"""Tests of nodes, which have pools of their own start their own."""

import pytest


@pytest.fixture
def warm_pools() -> None:
    """None."""
