"""A cache of a task is bounded."""

from __future__ import annotations

from pipeline.lms.embedded.caches import BoundedCache


def test_a_full_cache_is_emptied() -> None:
    """It holds at most as many entries as it may, the latest among them."""
    cache: BoundedCache[int, str] = BoundedCache(3)
    for number in range(10):
        assert cache.keep(number, str(number)) == cache[number] == str(number)
        assert 0 < len(cache) <= 3
