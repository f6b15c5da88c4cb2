"""The pool: jobs inherit a copy of the context; none starts after stop; errors surface where it is read."""

import threading
import time
from contextvars import ContextVar
from itertools import count

import pytest

from optimizers.sampling_loop import Pool

setting: ContextVar[int] = ContextVar("setting", default=0)


def test_nothing_starts_before_somebody_iterates():
    started: list[int] = []
    pool = Pool(started.append, range(3), 2)
    time.sleep(0.02)
    assert started == []
    assert list(pool) == [None] * 3 and sorted(started) == [0, 1, 2]


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


def test_nothing_starts_after_stop_and_what_started_is_delivered():
    pool = Pool(lambda job: time.sleep(0.01) or job, count(), 3)
    results = []
    for result in pool:
        results.append(result)
        pool.stop()
    assert sorted(results) == list(range(len(results))) and len(results) <= 6


def test_patience_bounds_the_wait_for_a_job_that_hangs():
    started, release = threading.Event(), threading.Event()

    def work(job: int) -> int:
        if job:
            started.set()
            release.wait(120)
        return job

    pool = Pool(work, range(2), 2)
    results = iter(pool)
    assert next(results) == 0 and started.wait(60)
    start = time.monotonic()
    pool.stop(patience=0.05)
    pool.stop()  # which gives no more time
    assert list(results) == [] and time.monotonic() - start < 60
    release.set()


def test_an_error_of_the_work_is_raised_where_the_pool_is_read():
    with pytest.raises(ZeroDivisionError):
        list(Pool(lambda job: 1 // job, [1, 0], 2))


@pytest.mark.parametrize("threads", [1, 4])
def test_an_error_of_the_source_of_jobs_is_raised_where_the_pool_is_read(threads):
    def jobs():
        yield from range(3)
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        list(Pool(str, jobs(), threads))


def test_while_nothing_ends_the_iterating_thread_gets_to_look_at_the_clock() -> None:
    release = threading.Event()
    got = []
    for result in Pool(lambda job: release.wait(60) and job, [7], 1, tick=0.01):
        got.append(result)
        release.set()
    assert got[0] is None and got[-1] == 7
