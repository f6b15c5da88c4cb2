"""The benchmarks that time parts of a run name parts that exist."""

from __future__ import annotations

import importlib
from typing import Any

import pytest


def timed(benchmark: str) -> dict[str, Any]:
    module = importlib.import_module(f"benchmarks.{benchmark}")
    return dict(module.places() if benchmark == "compile" else module.PLACES)


@pytest.mark.parametrize("benchmark", ["compile", "overhead"])
def test_every_part_that_is_timed_exists(benchmark: str) -> None:
    """A function that was renamed would end the benchmark when it starts."""
    places = [place for part in timed(benchmark).values() for place in part]
    assert places and all(callable(getattr(owner, name)) for owner, name in places)
