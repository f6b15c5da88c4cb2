"""The pool: jobs inherit a copy of the context; none begins after stop; errors surface where it is read."""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar
from itertools import count

import pytest

from optimizers.pool import Pool

setting: ContextVar[int] = ContextVar("setting", default=0)


def test_every_job_is_delivered_once():
    assert sorted(Pool(lambda job: job * 2, range(50), 8)) == list(range(0, 100, 2))


def test_nothing_begins_before_somebody_iterates():
    begun: list[int] = []
    pool = Pool(begun.append, range(3), 2)
    time.sleep(0.02)
    assert begun == []
    assert list(pool) == [None] * 3 and sorted(begun) == [0, 1, 2]


def test_one_thread_works_in_order():
    assert list(Pool(str, range(5), 1)) == ["0", "1", "2", "3", "4"]


def test_jobs_see_the_callers_context_and_not_each_others():
    def work(job: int) -> int:
        seen = setting.get()
        setting.set(job)
        return seen

    token = setting.set(7)
    try:
        assert set(Pool(work, range(1, 20), 2)) == {7}
    finally:
        setting.reset(token)


def test_nothing_begins_after_stop_and_what_began_is_delivered():
    pool = Pool(lambda job: time.sleep(0.01) or job, count(), 3)
    results = []
    for result in pool:
        results.append(result)
        pool.stop()
    assert sorted(results) == list(range(len(results))) and len(results) <= 6


def test_patience_bounds_the_wait_for_a_job_that_hangs():
    release = threading.Event()
    pool = Pool(lambda job: release.wait(10), range(1), 1)
    start = time.monotonic()
    pool.stop(patience=0.05)
    assert list(pool) == [] and time.monotonic() - start < 2
    release.set()


def test_an_error_of_the_work_is_raised_where_the_pool_is_read():
    with pytest.raises(ZeroDivisionError):
        list(Pool(lambda job: 1 // job, [1, 0], 2))
