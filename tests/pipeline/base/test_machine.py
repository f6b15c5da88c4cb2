"""The cores that this process may use, not those that the machine has."""

import os

import pytest

from pipeline.base.machine import cores


def test_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container or `taskset` may allow fewer."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5, 6}, raising=False)
    assert cores() == 3


@pytest.mark.parametrize(("count", "expected"), [(4, 4), (None, 1)])
def test_without_affinity_the_machine_s_cores_count(
    count: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least one, even where their number is not known."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert cores() == expected
