"""The pool holds these:

- it is an `Executor` like any other: results, exceptions, order, cancelling, shutting down;
- a call that hangs, crashes or eats memory costs itself an error and one worker, and no other call anything;
- what a call was lost at is known to the calls after it, where that alone was the reason;
- there are as many workers as cores, or as given, and no more than there are calls;
- no worker outlives the pool, nor the process that made it, however that ends; Ctrl-C leaves them silent.
"""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import pytest

from pipeline.verification.isolation.confinement import Sandbox
from pipeline.verification.pool import LocalWorkers, PoolSettings, WorkerLost, WorkerPool, cores
from tests.support import crashing
from tests.support.paths import PROJECT
from tests.support.processes import PATIENCE, gone

MEMORY = 2**29


def make_pool(workers: int = 1, seconds: float = PATIENCE, **settings: Any) -> WorkerPool:
    return WorkerPool(workers, seconds=seconds, memory=MEMORY, sandbox=Sandbox("off"), **settings)


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that computes may take any time by the clock."""
    monkeypatch.setattr("pipeline.verification.pool.PATIENCE", 100)


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with make_pool(2) as pool:
        yield pool


def error_of(future: Future[Any]) -> BaseException | None:
    return future.exception(timeout=PATIENCE)


def test_it_calls_functions_in_other_processes(pool: WorkerPool) -> None:
    """Results come back, in order from `map`, and each worker serves many calls."""
    assert list(pool.map(crashing.echo, range(100))) == list(range(100))
    workers = set(pool.map(crashing.process_id, range(50)))
    assert len(workers) <= 2
    assert os.getpid() not in workers


def test_what_a_function_raises_is_raised(pool: WorkerPool) -> None:
    """As it is, or reported in words where it can't be pickled."""
    with pytest.raises(ValueError, match="on purpose"):
        pool.submit(crashing.fail, "on purpose").result()
    with pytest.raises(RuntimeError, match="PickyError: one two"):
        pool.submit(crashing.fail_pickily).result()


def test_what_can_not_be_pickled_is_refused_at_once(pool: WorkerPool) -> None:
    """In the thread that asks."""
    with pytest.raises((AttributeError, TypeError, ValueError), match="pickle"):
        pool.submit(lambda: None)


@pytest.mark.parametrize(
    ("function", "args", "message"),
    [
        (crashing.leave, (3,), "exit code 3"),
        (crashing.leave, (0,), "exit code 0"),
        (crashing.exit_politely, (), "exit code 0"),
        (crashing.segfault, (), "SIGSEGV"),
    ],
)
def test_a_crash_costs_its_own_call_only(
    pool: WorkerPool, function: Callable[..., Any], args: tuple[Any, ...], message: str
) -> None:
    """The calls before, after and beside it are answered."""
    before = [pool.submit(crashing.echo, number) for number in range(20)]
    crash = pool.submit(function, *args)
    after = [pool.submit(crashing.echo, number) for number in range(20)]
    error = error_of(crash)
    assert isinstance(error, WorkerLost)
    assert error.code == "crashed"
    assert message in str(error)
    assert [future.result(PATIENCE) for future in before + after] == [*range(20), *range(20)]


@pytest.mark.parametrize("function", [crashing.hang, crashing.hang_deaf])
def test_a_hang_costs_its_own_call_only(function: Callable[[], Any]) -> None:
    """It is killed when its time is up, and the worker replaced at once."""
    with make_pool(seconds=0.4) as pool:
        worker = pool.submit(crashing.process_id).result()
        hanging, after = pool.submit(function), pool.submit(crashing.process_id)
        error = error_of(hanging)
        assert isinstance(error, WorkerLost)
        assert error.code == "time-limit"
        assert "0.4 s" in str(error)
        assert error.spent >= 0.3
        assert after.result(PATIENCE) != worker
        assert gone(worker)


@pytest.mark.parametrize(
    ("function", "args", "code"), [(crashing.hang, (), "time-limit"), (crashing.leave, (3,), "crashed")]
)
def test_later_calls_know_what_a_call_was_lost_at(function: Callable[..., Any], args: Any, code: str) -> None:
    """The error says it too; what a call was at before the next one came is nobody's concern."""
    with make_pool(seconds=0.4) as pool:
        assert pool.submit(crashing.note_and, "an echo", crashing.echo, 1).result(PATIENCE) == 1
        error = error_of(pool.submit(crashing.note_and, "the end", function, *args))
        assert isinstance(error, WorkerLost)
        assert (error.code, error.at) == (code, "the end")
        assert pool.submit(crashing.noted).result(PATIENCE) == {"the end": str(error)}
        unsaid = error_of(pool.submit(function, *args))
        assert isinstance(unsaid, WorkerLost)
        assert unsaid.at == ""


def test_what_took_little_of_the_time_is_not_blamed() -> None:
    """A call that was slow all along says nothing of what it was at when its time was up."""
    with make_pool(seconds=0.8) as pool:
        error = error_of(pool.submit(crashing.note_after, 0.6, "the last bit"))
        assert isinstance(error, WorkerLost)
        assert error.at == "the last bit"
        assert pool.submit(crashing.noted).result(PATIENCE) == {}


def test_a_call_that_waits_ends_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """It uses no processor time; that limit is far off."""
    monkeypatch.setattr("pipeline.verification.pool.PATIENCE", 0.5)
    with make_pool(seconds=1) as pool:
        error = error_of(pool.submit(crashing.nap, 600.0))
        assert isinstance(error, WorkerLost)
        assert (error.code, error.waited) == ("time-limit", True) and "0.5 s by the clock" in str(error)


def test_a_crash_that_does_not_come_again_is_not_blamed(pool: WorkerPool, tmp_path: Path) -> None:
    """The second worker did what the first one was lost at."""
    marker = str(tmp_path / "marker")
    assert pool.submit(crashing.note_and, "a crash", crashing.crash_once, marker).result(PATIENCE) == "survived"
    assert "a crash" not in pool.submit(crashing.noted).result(PATIENCE)


def test_memory_that_a_call_keeps_is_not_the_next_one_s_loss() -> None:
    """A worker that holds half of what it may is replaced between two calls."""
    with make_pool() as pool:
        workers = [pool.submit(crashing.hold, MEMORY // 4).result(PATIENCE) for _ in range(6)]
        assert 1 < len(set(workers)) <= 6


@pytest.mark.parametrize("which", [crashing.process_id, crashing.worker_id])
def test_an_idle_worker_s_death_costs_nothing(which: Callable[[], int]) -> None:
    """It is noticed with the next call, which is answered; so is that of the process that its calls run in."""
    with make_pool() as pool:
        worker = pool.submit(which).result()
        os.kill(worker, signal.SIGKILL)
        assert gone(worker)
        assert pool.submit(crashing.process_id).result(PATIENCE) != worker


def test_workers_that_can_not_start_are_no_verdict_on_a_call() -> None:
    """Every call says so; none hangs."""
    with make_pool(initializer=crashing.cannot_start) as pool:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="can't start"):
                pool.submit(crashing.echo, 1).result(PATIENCE)


def test_a_script_that_its_own_workers_run_again_ends(tmp_path: Path) -> None:
    """Without `if __name__ == "__main__"` no worker can start; the script ends with one reason, and waits for none."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            from pipeline.verification.pool import WorkerPool
            with WorkerPool(1, seconds=5, memory={MEMORY}) as pool:
                pool.submit(abs, -1).result()
            """
        )
    )
    ran = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 1
    reason = "worker processes can't start: the last ran the script that starts them: put the script's calls under"
    assert ran.stderr.splitlines()[-1] == f'RuntimeError: {reason} `if __name__ == "__main__":`'
    assert ran.stderr.count("Traceback") == 1


@pytest.mark.parametrize("error", [EOFError("unexpected EOF"), BlockingIOError("no more processes")])
def test_a_process_that_is_refused_is_reported(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the system, or as the server that makes them is gone, such as after Ctrl-C: no thread dies of it."""
    with make_pool() as pool:

        def refuse(*_: object) -> None:
            raise error

        pool.submit(crashing.echo, 1).result(PATIENCE)
        monkeypatch.setattr(pool._context.Process, "_Popen", staticmethod(refuse))
        os.kill(pool.submit(crashing.worker_id).result(PATIENCE), signal.SIGKILL)
        with pytest.raises(RuntimeError, match="can't start: the last was refused by the system"):
            pool.submit(crashing.echo, 1).result(PATIENCE)


def test_a_resource_tracker_that_dies_costs_nothing() -> None:
    """Its death is a warning, which is an error here, in whichever thread asks for it next."""
    with make_pool() as pool:
        assert pool.submit(abs, -1).result(PATIENCE) == 1
    os.kill(pid := resource_tracker._resource_tracker._pid, signal.SIGKILL)  # type: ignore[attr-defined]
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with make_pool() as pool:
        assert pool.submit(abs, -2).result(PATIENCE) == 2


def test_what_workers_print_is_not_seen(capfd: pytest.CaptureFixture[str]) -> None:
    """An author's prints must not spoil the parent's table, or its JSON."""
    with make_pool() as pool:
        assert pool.submit(crashing.chatter).result(PATIENCE) == "said"
    assert capfd.readouterr() == ("", "")


def test_shutdown_waits_for_all_and_ends_the_workers() -> None:
    """What was submitted is done; nothing more is taken."""
    pool = make_pool(2)
    futures = [pool.submit(crashing.nap, 0.05) for _ in range(10)]
    workers = [pool.submit(crashing.process_id) for _ in range(10)]
    pool.shutdown()
    pool.shutdown()
    assert [future.result(0) for future in futures] == [0.05] * 10
    assert all(gone(pid) for pid in {future.result(0) for future in workers})
    with pytest.raises(RuntimeError, match="shut down"):
        pool.submit(crashing.echo, 1)


def test_calls_that_wait_can_be_cancelled(tmp_path: Path) -> None:
    """One by one, or all at shutdown."""
    with make_pool() as pool:
        pool.submit(crashing.wait_for, str(tmp_path / "go"))
        futures = [pool.submit(crashing.echo, number) for number in range(20)]
        assert futures[-1].cancel()
        pool.shutdown(wait=False, cancel_futures=True)
        assert futures[-2].cancelled()
        (tmp_path / "go").touch()


def test_an_exception_kills_what_runs() -> None:
    """Leaving the pool with one takes no longer than a kill, whatever hangs."""
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt), make_pool() as pool:
        worker = pool.submit(crashing.process_id).result()
        futures = [pool.submit(crashing.hang) for _ in range(3)]
        time.sleep(0.2)
        raise KeyboardInterrupt
    assert time.monotonic() - start < PATIENCE / 2
    assert all(future.cancelled() or isinstance(error_of(future), RuntimeError) for future in futures)
    assert gone(worker)


def test_an_interrupt_does_not_wait_for_a_server_that_still_imports(tmp_path: Path) -> None:
    """Nor does the server outlive its imports, which here last until the test has closed a pipe."""
    os.mkfifo(fifo := tmp_path / "fifo")
    (tmp_path / "slow.py").write_text(f"import os\nprint(os.getpid(), flush=True)\nopen({str(fifo)!r}).read()\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import time\nfrom pipeline.verification.pool import WorkerPool\nif __name__ == '__main__':\n"
        "    with WorkerPool(1, seconds=600, memory=2**29, preload=['slow']):\n        time.sleep(600)\n"
    )
    env = {**os.environ, "PYTHONPATH": f"{PROJECT}:{tmp_path}"}
    words = [sys.executable, str(script)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, text=True, env=env, **pipes) as process, fifo.open("w"):
        server = int(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        process.wait(timeout=PATIENCE)
    assert gone(server)


SCRIPT = """
    import sys, threading, time
    from pipeline.verification.pool import WorkerPool
    from tests.support import crashing
    if __name__ == "__main__":
        pool = WorkerPool(2, seconds=600, memory=2**29)
        futures = [pool.submit(crashing.process_id) for _ in range(40)]
        print(*{future.result() for future in futures}, flush=True)
        pool.submit(crashing.hang_deaf)
        time.sleep(float(sys.argv[1]))
"""


def started(tmp_path: Path, seconds: float) -> tuple[subprocess.Popen[str], list[int]]:
    """A process with a pool, one of whose workers hangs, and its workers."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    process = subprocess.Popen(
        [sys.executable, str(script), str(seconds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        start_new_session=True,
    )
    assert process.stdout is not None
    workers = [int(pid) for pid in process.stdout.readline().split()]
    assert workers
    time.sleep(0.2)
    return process, workers


def test_no_worker_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    """Not even one that hangs, after a `kill -9`."""
    process, workers = started(tmp_path, 600)
    process.kill()
    process.communicate()
    assert all(gone(pid) for pid in workers)


def test_no_worker_outlives_a_parent_that_forgets_it(tmp_path: Path) -> None:
    """Without any shutdown, the interpreter ends at once, and in silence."""
    process, workers = started(tmp_path, 0)
    assert process.communicate(timeout=PATIENCE) == ("", "")
    assert process.returncode == 0
    assert all(gone(pid) for pid in workers)


def test_ctrl_c_is_the_parent_s_alone(tmp_path: Path) -> None:
    """A terminal sends it to all; one traceback comes, the parent's."""
    process, workers = started(tmp_path, 600)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=PATIENCE)
    assert stderr.count("Traceback") == stderr.count("KeyboardInterrupt") == 1
    assert all(gone(pid) for pid in workers)


def test_there_is_a_worker_for_each_core_unless_it_is_given() -> None:
    """A pool for a single call starts a single worker."""
    assert LocalWorkers().count == cores()
    assert LocalWorkers(3).count == 3
    with LocalWorkers(3).pool(PoolSettings(120.0, MEMORY), most=1) as pool:
        assert len({*pool.map(crashing.process_id, range(20))}) == 1
        pool.kill_workers()


def test_the_language_is_imported_and_frozen() -> None:
    """Workers that are forked find it, and collect what they make themselves.

    Neither they nor the embedded LM's import DSPy, which would take seconds in every process.
    """
    facts = "'torch' in sys.modules, gc.isenabled(), gc.get_freeze_count() > 0, 'dspy' not in sys.modules"
    code = f"import gc, sys, pipeline.verification.preload, pipeline.lms.embedded.answering; print({facts})"
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 4
