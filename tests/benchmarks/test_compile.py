"""The benchmark that times parts of a run names parts that exist."""

import importlib


def test_every_part_that_is_timed_exists() -> None:
    """A function that was renamed would end the benchmark when it starts."""
    timed = [place for part in importlib.import_module("benchmarks.compile").places().values() for place in part]
    assert timed and all(callable(getattr(owner, name)) for owner, name in timed)
