"""The process that runs an author's code holds nothing but its connection, and its answers are those of its calls."""

from collections.abc import Iterator

import pytest

from pipeline.verification.pool import WorkerLost, WorkerPool
from tests.support import attacking, crashing


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(1, seconds=60, memory=2**28, group=crashing.first_word) as pool:
        yield pool


def test_calls_of_a_group_share_a_process(pool: WorkerPool) -> None:
    """And those of two groups don't."""
    pids = {name: {pool.submit(attacking.process_of, name, "").result() for _ in range(3)} for name in "ab"}
    assert len(pids["a"]) == len(pids["b"]) == 1
    assert not pids["a"] & pids["b"]


def test_it_has_its_own_session(pool: WorkerPool) -> None:
    """A signal to its group reaches no other process."""
    session, process, parent = pool.submit(attacking.sessions, "a").result()
    assert session == process != parent


def test_a_value_that_is_not_data_is_its_call_s_error(pool: WorkerPool) -> None:
    """The next call of the group is answered."""
    with pytest.raises(WorkerLost, match=r"raised TypeError: .* not data"):
        pool.submit(crashing.echo, "bytes", b"x").result()
    assert pool.submit(crashing.echo, "x").result() == "x"
