"""Limits are enforced from outside the process that runs an author's code:

- time, memory of every kind, processes, files and the length of answers are bounded;
- what outlives its call is ended before the call's answer is passed on, and reaches no later call;
- a warden that fails itself is replaced, and costs nobody a verdict.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from pipeline.verification.isolation import processes
from pipeline.verification.isolation.confinement import Sandbox
from pipeline.verification.pool import WorkerLost, WorkerPool
from tests.support import attacking, crashing
from tests.support.processes import eventually, gone, state

MEMORY = 2**28
OFF = Sandbox("off")
"""Limits hold of cells that are not confined, too."""
PATIENCE = 120.0
pytestmark = pytest.mark.skipif(not processes.LINUX, reason="the limits are Linux's")


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(1, seconds=60, memory=MEMORY, sandbox=OFF) as pool:
        yield pool


def error_of(future: Future[Any]) -> WorkerLost:
    error = future.exception(timeout=PATIENCE)
    assert isinstance(error, WorkerLost), error
    return error


LOST: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str, str]] = {
    "private memory": (crashing.devour, (), "memory-limit", "memory limit"),
    "shared memory": (attacking.shared_memory, (2**26,), "memory-limit", "memory limit and was killed"),
    "files in memory": (attacking.memory_files, (2**24,), "memory-limit", "memory limit and was killed"),
    "memory in children": (attacking.in_children, (MEMORY,), "memory-limit", "memory limit and was killed"),
    "a fork bomb": (attacking.fork_bomb, (), "crashed memory-limit", "processes running|memory limit"),
    "many processes": (attacking.processes, (40,), "crashed", "more than 32 processes"),
    "the exit code of one whose judge was changed": (crashing.leave, (88,), "tampered", "changed the verifier"),
    "a long answer": (attacking.long_answer, (2**24 + 1,), "crashed", "answered with more than"),
}

SLOW = {"a fork bomb": pytest.mark.slow}
"""`many processes` holds the same, at less cost."""


@pytest.mark.parametrize("attack", [pytest.param(name, marks=SLOW.get(name, ())) for name in LOST])
def test_what_exceeds_a_limit_costs_its_own_call(pool: WorkerPool, attack: str) -> None:
    """The controls beside it are answered."""
    function, args, codes, message = LOST[attack]
    before, lost, after = pool.submit(crashing.echo, 1), pool.submit(function, *args), pool.submit(crashing.echo, 2)
    error = error_of(lost)
    assert error.code in codes.split()
    assert any(part in str(error) for part in message.split("|"))
    assert (before.result(PATIENCE), after.result(PATIENCE)) == (1, 2)
    assert len(pool.submit(attacking.long_answer, 1000).result(PATIENCE)) == 1000


def test_a_process_that_stops_itself_is_ended_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """It uses none of its processor time."""
    monkeypatch.setattr("pipeline.verification.pool.PATIENCE", 6)
    with WorkerPool(1, seconds=0.5, memory=MEMORY, sandbox=OFF) as pool:
        assert pool.submit(crashing.echo, 1).result(PATIENCE) == 1
        assert error_of(pool.submit(attacking.stop_myself)).code == "time-limit"
        assert pool.submit(crashing.echo, 2).result(PATIENCE) == 2


def test_a_copy_of_a_worker_answers_nothing(pool: WorkerPool) -> None:
    """A call that forks and goes on twice has one answer, and no other call has the second."""
    calls = [
        pool.submit(attacking.fork_on) if number % 3 == 0 else pool.submit(crashing.echo, number) for number in range(9)
    ]
    assert [call.result(PATIENCE) for call in calls] == [7, 1, 2, 7, 4, 5, 7, 7, 8]


@pytest.mark.parametrize(
    ("function", "most"), [(attacking.long_file, processes.FILE_BYTES), (attacking.many_files, processes.OPEN_FILES)]
)
def test_files_are_bounded(pool: WorkerPool, function: Callable[..., Any], most: int, tmp_path: Path) -> None:
    """The length of each, and how many are open."""
    assert pool.submit(function, str(tmp_path), 10).result(PATIENCE) == 10
    with pytest.raises((RuntimeError, OSError), match=r"too large|Too many"):
        pool.submit(function, str(tmp_path), most + 1).result(PATIENCE)


def test_no_core_is_dumped(pool: WorkerPool) -> None:
    """What a worker held is not written to a disk."""
    assert pool.submit(attacking.core_limit).result(PATIENCE) == [0, processes.FILE_BYTES]


def test_a_warden_that_is_killed_is_replaced() -> None:
    """The call is tried again, then given up as one whose process was killed, and others are answered."""
    with WorkerPool(1, seconds=60, memory=MEMORY, sandbox=OFF) as pool:
        first = pool.submit(crashing.worker_id).result(PATIENCE)
        assert error_of(pool.submit(attacking.kill_parent)).code == "killed"
        assert pool.submit(crashing.worker_id).result(PATIENCE) != first


def test_a_stopped_warden_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the pool up no longer than the pool is open."""
    monkeypatch.setattr("pipeline.verification.pool._FAREWELL", 0.5)
    pool = WorkerPool(1, seconds=600, memory=MEMORY, sandbox=OFF)
    worker, parent = (pool.submit(function).result(PATIENCE) for function in (crashing.process_id, crashing.worker_id))
    pool.submit(attacking.stop_worker)
    assert eventually(lambda: state(parent) == "T")
    pool.kill_workers()
    pool.shutdown()
    assert gone(worker)


def test_processes_of_many_groups_are_bounded() -> None:
    """The groups that were not asked for the longest make room."""
    with WorkerPool(1, seconds=60, memory=MEMORY, sandbox=OFF, group=crashing.first_word) as pool:
        workers = {pool.submit(crashing.hold_in_group, number, MEMORY // 8).result(PATIENCE) for number in range(8)}
        parent = pool.submit(crashing.worker_id).result(PATIENCE)
        assert len(workers) == 8
        assert eventually(lambda: sum(state(pid) != "" for pid in workers) <= 4)
        assert len(processes.children(parent)) < 8
